"""Decisions under /fleet/v1/decisions: their content, their proven quality, the record of each, and its replay.

A decision is no object of the hub, so no role speaks of it as a resource: these are paths, which a ClusterRole opens
with `nonResourceURLs`. They show names of jobs of all namespaces.
"""

from __future__ import annotations

import asyncio
import time
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.engine.status import StatusError, not_found
from api.fairness.questions import Questions
from api.wire.rights import Attributes
from fleet.core.model.reason import Code
from fleet.rest.context import JSON, RestHub, answer, need, user_of, wrong
from fleet.rest.decisiondocuments import Row, changes, detail, record_bytes, short
from fleet.rest.decisionmodels import DecisionDetail, DecisionList, Replay
from fleet.rest.models import Model

KIND = "decision"  # of the store's history: the rows of lists
RECORD = "decision-record"  # what such a row names by its id
PATH = "/fleet/v1/decisions"
ID_MAX = 2**63 - 2
LOOKED_AT_MOST = 1_000  # rows, of which a filter leaves some
Number = Annotated[int, Path(alias="id", ge=1, le=ID_MAX, description="As the list says.")]


class DecisionFilter(Model):
    """Which, and how many."""

    change: Literal["starts", "claims", "evictions"] | None = Field(
        None, description="Those that started a job, claimed room for one, or evicted one."
    )
    job: str = Field("", max_length=320, description="Those that changed a job with this text in namespace/name.")
    limit: int = Field(20, ge=1, le=200, description="At most so many.")
    continue_: str = Field("", alias="continue", max_length=20, description="As the page before said.")


class ReasonFilter(Model):
    """Which reasons, and how many."""

    job: str = Field("", max_length=320, description="Those of jobs with this text in namespace/name.")
    code: str = Field("", max_length=80, description="Those with this code.")
    limit: int | None = Field(None, ge=0, description="At most so many; all unless given.")


def router(hub: RestHub, turns: Questions) -> APIRouter:
    routes = APIRouter(tags=["decisions"])

    @routes.get("/decisions", response_model=DecisionList, summary="Decisions, newest first")
    async def list_decisions(request: Request, query: Annotated[DecisionFilter, Query()]) -> Response:
        """Those that started a job or took room back. A page with a filter may be short, or empty, before the last one.
        Needs `get` on the path /fleet/v1/decisions, as ClusterRoles name paths under `nonResourceURLs`."""
        need(request, Attributes("get", path=PATH))
        shown, following = await _page(hub, query)
        return answer({"items": [short(row) for row in shown], "continue": following})

    @routes.get("/decisions/{id}", response_model=DecisionDetail, summary="One decision")
    async def get_decision(request: Request, number: Number, query: Annotated[ReasonFilter, Query()]) -> Response:
        """Its certificate, changes and reasons, and the GPUs in use before and after. Needs `get` on its path."""
        need(request, Attributes("get", path=f"{PATH}/{number}"))
        row, record = await _row(hub, number)
        return answer(await asyncio.to_thread(_detail, row, record, query))

    @routes.get("/decisions/{id}/record", summary="The whole record of a decision")
    async def get_record(request: Request, number: Number) -> Response:
        """All inputs of the decision, as `fleet decide` replays it. Needs `get` on its path."""
        need(request, Attributes("get", path=f"{PATH}/{number}/record"))
        _, record = await _row(hub, number)
        named = {"content-disposition": f'attachment; filename="decision-{number}.json"'}
        return Response(await asyncio.to_thread(record_bytes, record), media_type=JSON, headers=named)

    @routes.post("/decisions/{id}/replay", response_model=Replay, summary="Decide a record anew")
    async def post_replay(request: Request, number: Number) -> Response:
        """Whether the record leads to the recorded plan again; nothing is changed, and no solver is asked. Needs `post`
        on its path. 429 when too many ask at once."""
        need(request, Attributes("post", path=f"{PATH}/{number}/replay"))
        _, record = await _row(hub, number)
        async with turns.turn(user_of(request).name):
            return answer(await asyncio.to_thread(_replayed, record))

    return routes


async def _page(hub: RestHub, query: DecisionFilter) -> tuple[list[Row], str | None]:
    """The rows of a page, and the id after which the next one begins; None: there is none."""
    page: list[Row] = []
    before, looked_at = _before(query.continue_), 0
    size = 200 if query.change or query.job else query.limit + 1
    while looked_at < LOOKED_AT_MOST:
        rows = await hub.store.read_history(KIND, limit=size, before=before)
        for row in rows:
            if len(page) == query.limit:
                return page, str(before)
            before = row["id"]
            if changes(row, query.change, query.job):
                page.append(row)
        looked_at += len(rows)
        if len(rows) < size:
            return page, None
    return page, str(before)


def _before(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise wrong("continue", "is not what a page said")
    return min(int(text), ID_MAX)


async def _row(hub: RestHub, number: int) -> tuple[Row, Row]:
    """The row of the list, and the row with its record: the same one where an older release wrote it. Records go before
    their rows."""
    row = await _one(hub, KIND, number)
    if row is not None and isinstance(row["record"], str):
        return row, row
    record = await _one(hub, RECORD, row["record"]) if row is not None else None
    if row is None or record is None:
        raise _gone(number)
    return row, record


async def _one(hub: RestHub, kind: str, number: int) -> Row | None:
    rows = await hub.store.read_history(kind, limit=1, before=number + 1)
    return rows[0] if rows and rows[0]["id"] == number else None


def _gone(number: int) -> StatusError:
    return not_found("", "decisions", str(number))


def _detail(row: Row, record: Row, query: ReasonFilter) -> dict[str, Any]:
    found = detail(row, record_bytes(record), query.limit, query.job, query.code)
    if query.code and query.code not in (*Code, *found["codes"]):  # an older release had others
        near = get_close_matches(query.code, list(Code), n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise wrong("code", f"{query.code} is no code of a reason{meant}")
    return found


def _replayed(row: Row) -> dict[str, Any]:
    # The notation loads the whole decision core, which an API process that was killed should not wait for.
    from fleet.core.notation.codec import decode_plan, differences, replay

    record = orjson.loads(record_bytes(row))
    began = time.monotonic()
    differ = differences(replay(record), decode_plan(record["plan"]))
    return {"reproduced": not differ, "differ": differ, "ms": round((time.monotonic() - began) * 1000, 3)}
