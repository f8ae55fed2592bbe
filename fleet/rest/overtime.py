"""Use over time and the newest changes, under /fleet/v1/reports: the charts and the list of the page Fleet."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.rest.aggregates import RecentAnswers
from fleet.rest.context import RestHub, allowed, answer, need
from fleet.rest.history import RECENT_S, HistoryRoutes, answer_key
from fleet.rest.historydb import HistoryDatabase, unavailable_as_503
from fleet.rest.historymodels import Changes, UsageOverTime
from fleet.rest.periods import PeriodFilter
from fleet.rest.sight import READ_QUEUES, READ_TREE
from fleet.values.times import rfc3339
from fleet.wellknown import CLUSTER

if TYPE_CHECKING:
    from fleet.accounts.reports_changes import Row
    from fleet.accounts.reports_series import OverTime

POINTS_MAX = 200
CHANGES_MAX = 200
SERIES_S = 5.0  # as RECENT_S: the use is recorded by the minute
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
READ_MEMBERS = Attributes("list", CLUSTER, "clusters")


class SeriesFilter(PeriodFilter):
    by: Literal["queue", "member"] = Field("queue", description="What a series stands for.")
    points: int = Field(POINTS_MAX, ge=1, le=POINTS_MAX, description="At most so many steps.")


class ChangesFilter(PeriodFilter):
    limit: int = Field(20, ge=1, le=CHANGES_MAX, description="At most so many, the newest.")


def router(hub: RestHub, history: HistoryDatabase) -> APIRouter:
    routes = APIRouter(tags=["history"])
    past = HistoryRoutes(hub, history)
    series: RecentAnswers[OverTime] = RecentAnswers(SERIES_S)
    lately: RecentAnswers[tuple[list[Row], dict[str, int]]] = RecentAnswers(RECENT_S)

    def now() -> datetime:
        return datetime.fromtimestamp(hub.objects.clock.now(), UTC)

    @routes.get("/reports/series", response_model=UsageOverTime, summary="GPUs in use over time")
    async def get_series(request: Request, query: Annotated[SeriesFilter, Query()]) -> Response:
        """Means over the steps of a period, one day unless given. By queue as the whole list of queues, by member as
        the list of clusters; `capacity` with the latter right only."""
        if query.by == "queue":
            need(request, READ_QUEUES)
            need(request, READ_TREE)
        else:
            need(request, READ_MEMBERS)
        start, end = query.period(now(), DAY)
        reader = await history.reader()
        from fleet.accounts.reports_selection import Period
        from fleet.accounts.reports_series import over_time

        async def read() -> OverTime:
            return await over_time(reader, query.by, Period(start, end, now()), query.points)

        with unavailable_as_503():
            report = await series.of(request.url.query, read)
        capacity = report.capacity if allowed(request, READ_MEMBERS) else None
        return answer(
            {
                "by": query.by,
                "from": _time(start),
                "to": _time(end),
                "stepS": report.step_s,
                "at": [_time(at) for at in report.steps],
                "series": [asdict(one) for one in report.series],
                "capacity": capacity,
            }
        )

    @routes.get("/reports/changes", response_model=Changes, summary="Jobs that started and ended lately")
    async def get_changes(request: Request, query: Annotated[ChangesFilter, Query()]) -> Response:
        """The newest first; of the last hour unless given. Shows the jobs of the kinds and namespaces where the user
        may `list` them now; all with `get` on the path."""
        start, end = query.period(now(), HOUR)
        reader = await history.reader()
        from fleet.accounts.reports_changes import changes
        from fleet.accounts.reports_selection import Period

        chosen = past.selection(request, None, "/fleet/v1/reports/changes")

        async def read() -> tuple[list[Row], dict[str, int]]:
            return await changes(reader, Period(start, end, now()), chosen, query.limit)

        with unavailable_as_503():
            rows, counts = await lately.of(answer_key(request, chosen), read)
        items = [row | {"at": _time(row["at"])} for row in rows]
        return answer(
            {
                "from": _time(start),
                "to": _time(end),
                "items": items,
                "counts": counts,
                "partial": chosen.sight is not None,
            }
        )

    return routes


def _time(at: Any) -> str:
    return rfc3339(at.timestamp())
