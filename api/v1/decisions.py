"""Decisions under /fleet/v1/decisions: their content, their proven quality, and the record to replay each with.

A decision is no object of the hub, so no role speaks of it as a resource: these are paths, which a ClusterRole opens
with `nonResourceURLs`. They show names of jobs of all namespaces.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.rbac import Attributes
from api.v1.context import JSON, Hub, answer, need, wrong
from api.v1.hubmodels import DecisionDetail, DecisionList
from api.v1.models import Model
from fleet.engine.status import StatusError, not_found
from fleet.model.plan import Stage
from fleet.model.times import rfc3339

KIND = "decision"  # of the store's history
PATH = "/fleet/v1/decisions"
ID_MAX = 2**63 - 2
Row = Mapping[str, Any]
Number = Annotated[int, Path(ge=1, le=ID_MAX, description="As the list says.")]


class DecisionFilter(Model):
    """How many."""

    limit: int = Field(20, ge=1, le=200, description="At most so many.")
    continue_: str = Field("", alias="continue", max_length=20, description="As the page before said.")


def router(hub: Hub) -> APIRouter:
    routes = APIRouter(tags=["decisions"])

    @routes.get("/decisions", response_model=DecisionList, summary="Decisions, newest first")
    async def list_decisions(request: Request, query: Annotated[DecisionFilter, Query()]) -> Response:
        """Needs `get` on the path /fleet/v1/decisions, as ClusterRoles name paths under `nonResourceURLs`."""
        need(request, Attributes("get", path=PATH))
        rows = await hub.store.read_history(KIND, limit=query.limit + 1, before=_before(query.continue_))
        more = len(rows) > query.limit
        shown = rows[: query.limit]
        following = str(shown[-1]["id"]) if more else None
        return answer({"items": [short(row) for row in shown], "continue": following})

    @routes.get("/decisions/{number}", response_model=DecisionDetail, summary="One decision")
    async def get_decision(request: Request, number: Number) -> Response:
        """Its certificate, placements and reasons. Needs `get` on its path."""
        need(request, Attributes("get", path=f"{PATH}/{number}"))
        row = await _row(hub, number)
        return answer(await asyncio.to_thread(detail, row))

    @routes.get("/decisions/{number}/record", summary="The whole record of a decision")
    async def get_record(request: Request, number: Number) -> Response:
        """All inputs of the decision, as `fleet decide` replays it. Needs `get` on its path."""
        need(request, Attributes("get", path=f"{PATH}/{number}/record"))
        row = await _row(hub, number)
        return Response(await asyncio.to_thread(record_bytes, row), media_type=JSON)

    return routes


def _before(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise wrong("continue", "is not what a page said")
    return min(int(text), ID_MAX)


async def _row(hub: Hub, number: int) -> Row:
    rows = await hub.store.read_history(KIND, limit=1, before=number + 1)
    if not rows or rows[0]["id"] != number:
        raise _gone(number)
    return rows[0]


def _gone(number: int) -> StatusError:
    return not_found("", "decisions", str(number))


def record_bytes(row: Row) -> bytes:
    """The record of a row, as JSON."""
    return zlib.decompress(base64.b64decode(row["record"]))


def short(row: Row) -> dict[str, Any]:
    """A row as models.Decision describes it."""
    return {
        "id": row["id"],
        "at": rfc3339(float(row["now"])),
        "placed": row["placed"],
        "waiting": row["waiting"],
        "shipped": row["shipped"],
    }


def detail(row: Row) -> dict[str, Any]:
    """A row as models.DecisionDetail describes it; takes long enough to be a thread's work."""
    record = orjson.loads(record_bytes(row))
    snapshot, plan = record["snapshot"], record["plan"]
    names = {unit["id"]: unit.get("name", unit["id"]) for unit in snapshot["units"]}
    certificate = plan["certificate"]
    stages = [
        {
            "name": stage["name"],
            "value": stage["value"],
            "bound": stage["bound"],
            "gap": Stage("", stage["value"], stage["bound"], "").gap,
            "status": stage["status"],
            "ms": round(stage.get("seconds", 0.0) * 1000, 3),
        }
        for stage in certificate.get("stages", ())
    ]
    return {
        **short(row),
        "seed": record["seed"],
        "units": len(snapshot["units"]),
        "members": len(snapshot["members"]),
        "ms": round(sum(stage["ms"] for stage in stages), 3),
        "certificate": {"shipped": certificate["shipped"], "why": certificate.get("why", ""), "stages": stages},
        "placements": [
            {"unit": entry["unit"], "job": names.get(entry["unit"], ""), "member": entry["member"]}
            for entry in plan["placements"]
        ],
        "reasons": [
            {
                "unit": unit,
                "job": names.get(unit, ""),
                "reason": {"code": entry["code"], "text": entry["text"], "numbers": entry["numbers"]},
            }
            for unit, entry in plan["reasons"].items()
        ],
    }
