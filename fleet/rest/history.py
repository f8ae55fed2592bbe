"""The history under /fleet/v1/history and /fleet/v1/reports: jobs of the past, whole lives, and what it all adds up to.

The history outlives the objects, so rights are asked about namespaces: a reader sees the jobs of the kinds and
namespaces that she may `list` now. The right to `get` the path itself opens everything.
"""

from __future__ import annotations

import difflib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.engine.status import StatusError, not_found
from api.wire.rights import Attributes
from fleet.kinds import kind_word
from fleet.rest.aggregates import RecentAnswers
from fleet.rest.context import RestHub, allowed, answer, need, user_of, wrong
from fleet.rest.historydb import HistoryDatabase, unavailable_as_503
from fleet.rest.historymodels import Forgotten, HistoryReport, Life, PastJobList
from fleet.rest.models import Model
from fleet.rest.periods import Moment, PeriodFilter
from fleet.rest.sight import spaces
from fleet.rest.states import State
from fleet.rest.targets import job_kind, job_kinds
from fleet.values.times import moment, rfc3339

if TYPE_CHECKING:
    from fleet.accounts.reports_lives import Mark
    from fleet.accounts.reports_reader import HistoryReader
    from fleet.accounts.reports_selection import JobSelection, Sight

PATH, REPORTS = "/fleet/v1/history", "/fleet/v1/reports"
LIMIT, LIMIT_MAX = 500, 5_000
ROWS_MAX = 10_000
PERIOD = timedelta(days=30)
NEAR_MOST = 3
RECENT_S = 0.5  # for which an answer of a list is shared by those who ask the same: pages that stay open
ByName = Literal["user", "queue", "namespace", "member", "model"]


class ReportSubject(Model):
    """Of which jobs."""

    user: str | None = Field(None, min_length=1, max_length=1000, description="Only those that this user created.")
    queue: str | None = Field(None, min_length=1, max_length=1000, description="Only of this queue or one below it.")
    namespace: str | None = Field(None, min_length=1, max_length=63, description="Only of this namespace.")
    kind: str | None = Field(None, min_length=1, max_length=253, description="Only of this kind, e.g. PyTorchJob.")
    member: str | None = Field(None, min_length=1, max_length=253, description="Only of attempts in this member.")
    model: str | None = Field(None, min_length=1, max_length=253, description="Only on GPUs of this model.")


class HistoryFilter(ReportSubject):
    state: list[State] = Field([], max_length=20, description="Only in these states. May be repeated.")
    name: str | None = Field(None, min_length=1, max_length=253, description="Only of this name.")
    since: Moment | None = Field(None, description="Only those that were not over before this time, RFC 3339.")
    until: Moment | None = Field(None, description="Only those that were submitted before this time.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="At most so many.")
    continue_: str = Field("", alias="continue", max_length=200, description="As the page before said.")


class ReportFilter(ReportSubject, PeriodFilter):
    by: ByName = Field("user", description="What a row stands for.")
    from_: Moment | None = Field(None, alias="from", description="RFC 3339; 30 days before `to` unless given.")
    limit: int = Field(1000, ge=1, le=ROWS_MAX, description="At most so many rows, the largest.")


Namespace = Annotated[str, Path(description="Namespace of the job.")]
KindName = Annotated[str, Path(description="PyTorchJob, pytorchjobs, …")]
Name = Annotated[str, Path(description="Name of the job.")]


def router(hub: RestHub, history: HistoryDatabase) -> APIRouter:
    routes = APIRouter(tags=["history"])
    past = HistoryRoutes(hub, history)

    @routes.get("/history", response_model=PastJobList, summary="Jobs of the past and the present")
    async def list_history(request: Request, query: Annotated[HistoryFilter, Query()]) -> Response:
        """The newest submission first, deleted jobs too. Shows the jobs of the kinds and namespaces where the user may
        `list` them now, and says so in `partial`. All with `get` on the path /fleet/v1/history."""
        return await past.list(request, query)

    @routes.get("/history/{uid}", response_model=Life, summary="The life of a job, by its uid")
    async def get_life(request: Request, uid: Annotated[UUID, Path(description="Of the job.")]) -> Response:
        """Needs `list` on its kind in its namespace, or `get` on the path."""
        return await past.of_uid(request, str(uid))

    @routes.get("/history/{namespace}/{kind}/{name}", response_model=Life, summary="The life of a job")
    async def get_named(request: Request, namespace: Namespace, kind: KindName, name: Name) -> Response:
        """Of several jobs that had the name, the newest; `earlier` has the others. Needs `get` on it, or `get` on the
        path."""
        return await past.of_name(request, namespace, kind, name)

    @routes.delete("/history/users/{name:path}", response_model=Forgotten, summary="Forget a user")
    async def forget(request: Request, name: Annotated[str, Path(description="Name of the user.")]) -> Response:
        """Takes the name out of all records, which stay. Needs `delete` on the path /fleet/v1/history/users."""
        return await past.forget(request, name)

    @routes.get("/reports/{report}", response_model=HistoryReport, summary="Usage, waits or efficiency")
    async def get_report(
        request: Request, report: Literal["usage", "waits", "efficiency"], query: Annotated[ReportFilter, Query()]
    ) -> Response:
        """Of the jobs of the kinds and namespaces where the user may `list` them now, which `partial` says. Of all with
        `get` on the path."""
        return await past.report(request, report, query)

    return routes


class HistoryRoutes:
    """The routes, apart from their declarations."""

    def __init__(self, hub: RestHub, history: HistoryDatabase) -> None:
        self._hub = hub
        self._history = history
        self._recent: RecentAnswers[tuple[Any, Mark | None, datetime | None]] = RecentAnswers(RECENT_S)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._hub.objects.clock.now(), UTC)

    async def list(self, request: Request, query: HistoryFilter) -> Response:
        from fleet.accounts import reports_lives

        if query.since is not None and query.until is not None and query.since >= query.until:
            raise wrong("since", "is not before `until`")
        reader = await self._history.reader()
        chosen = self.selection(request, query)
        after = decoded(query.continue_) if query.continue_ else None

        async def read() -> tuple[Any, Mark | None, datetime | None]:
            jobs, mark = await reports_lives.jobs(
                reader,
                chosen,
                states=[str(state) for state in query.state],
                name=query.name,
                since=query.since,
                until=query.until,
                limit=query.limit,
                after=after,
                now=self._now(),
            )
            return jobs, mark, await reader.since()

        with unavailable_as_503():
            items, mark, since = await self._recent.of(answer_key(request, chosen), read)
        return answer(
            {
                "items": items,
                "continue": encoded(mark) if mark is not None else None,
                "partial": chosen.sight is not None,
                "recordedSince": _time(since),
            }
        )

    async def of_uid(self, request: Request, uid: str) -> Response:
        from fleet.accounts import reports_lives

        reader = await self._history.reader()
        chosen = self.selection(request)
        with unavailable_as_503():
            found = await reports_lives.life(reader, self._now(), *reports_lives.of_uid(uid, chosen))
        if found is None:
            raise not_found("", "jobs", uid)
        return answer(found)

    async def of_name(self, request: Request, namespace: str, kind_name: str, name: str) -> Response:
        from fleet.accounts import reports_lives

        if not allowed(request, Attributes("get", path=PATH)):
            kind = job_kind(self._hub.registry, kind_name, "kind")
            if not spaces(request, "list", kind, namespace):
                need(request, Attributes("get", kind.group, kind.resource, namespace=namespace, name=name))
        spelled, reader = self._spelled(kind_name), await self._history.reader()
        with unavailable_as_503():
            found = await reports_lives.life(reader, self._now(), *reports_lives.of_name(namespace, spelled, name))
            if found is None:
                raise await self._unknown(request, reader, namespace, spelled, name)
        return answer(found)

    async def _unknown(
        self, request: Request, reader: HistoryReader, namespace: str, kind: str, name: str
    ) -> StatusError:
        """The refusal, with the names that the user may have meant, of jobs that she may list."""
        from fleet.accounts import reports_lives
        from fleet.accounts.reports_selection import JobSelection

        chosen = JobSelection(namespace=namespace, sight=self._sight(request))
        near = difflib.get_close_matches(name, await reports_lives.names(reader, chosen), NEAR_MOST, 0.75)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        text = f'the history has no {kind} "{name}" in namespace {namespace}{meant}'
        return StatusError(404, "NotFound", text, kind=kind, name=name)

    async def forget(self, request: Request, name: str) -> Response:
        need(request, Attributes("delete", path=f"{PATH}/users"))
        reader = await self._history.reader()
        with unavailable_as_503():
            rows = await reader.erase(name)
        return answer({"user": name, "rows": rows})

    async def report(self, request: Request, report: str, query: ReportFilter) -> Response:
        from fleet.accounts.reports import REPORTS as MADE
        from fleet.accounts.reports import ReportGrouping
        from fleet.accounts.reports_selection import Period

        now = self._now()
        start, end = query.period(now, PERIOD)
        reader = await self._history.reader()
        chosen = self.selection(request, query, f"{REPORTS}/{report}")
        with unavailable_as_503():
            rows, total = await MADE[report](reader, ReportGrouping(query.by), Period(start, end, now), chosen)
            since = await reader.since()
        return answer(
            {
                "report": report,
                "by": query.by,
                "from": _time(start),
                "to": _time(end),
                "rows": rows[: query.limit],
                "left": max(0, len(rows) - query.limit),
                "total": total,
                "partial": chosen.sight is not None,
                "recordedSince": _time(since),
            }
        )

    def selection(self, request: Request, query: ReportSubject | None = None, path: str = PATH) -> JobSelection:
        """The choice, and what of it the user may see. StatusError 403 where that is nothing at all."""
        from fleet.accounts.reports_selection import JobSelection

        sight = self._sight(request, path)
        if sight == {}:
            name = user_of(request).name
            raise StatusError(403, "Forbidden", f'jobs are forbidden: User "{name}" cannot list jobs in any namespace')
        if query is None:
            return JobSelection(sight=sight)
        kind = self._spelled(query.kind) if query.kind is not None else None
        return JobSelection(query.user, query.queue, query.namespace, kind, query.member, query.model, sight)

    def _sight(self, request: Request, path: str = PATH) -> Sight | None:
        """The namespaces of each kind whose jobs the user may list; None: the whole history."""
        if allowed(request, Attributes("get", path=path)):
            return None
        sight: dict[str, frozenset[str] | None] = {}
        for kind in job_kinds(self._hub.registry):
            there = spaces(request, "list", kind)
            mine = None if there == [None] else frozenset(space for space in there if space is not None)
            sight[kind_word(kind.group, kind.kind)] = mine
        if all(there is None for there in sight.values()):
            return None
        return {kind: there for kind, there in sight.items() if there is None or there}

    def _spelled(self, name: str) -> str:
        """The kind as the history spells it. Of a kind that is served no more the name is taken as it is."""
        try:
            kind = job_kind(self._hub.registry, name, "kind")
        except StatusError:
            return name
        return kind_word(kind.group, kind.kind)


def answer_key(request: Request, chosen: JobSelection) -> Hashable:
    """What an answer of the history follows from: users who may see the same, and ask the same, share it."""
    sight = None if chosen.sight is None else frozenset(chosen.sight.items())
    return request.url.query, sight


def encoded(mark: Mark) -> str:
    return urlsafe_b64encode(orjson.dumps([mark[0].isoformat(), mark[1]])).decode().rstrip("=")


def decoded(text: str) -> Mark:
    """Submission and uid of the last job that was shown. StatusError 422 for what we did not give out."""
    try:
        at, uid = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        found = moment(at)
        if found is not None:
            return found, str(UUID(uid))
    except (ValueError, Base64Error, TypeError, AttributeError):
        pass
    raise wrong("continue", "is not what a page said")


def _time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at.timestamp())
