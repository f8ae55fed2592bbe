"""Nodes under /fleet/v1/nodes: those with GPUs, and the jobs that hold them, as the controllers saw them last."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.admission.latest import NODES
from fleet.core.model.unit import Unit
from fleet.kinds import named_kind
from fleet.rest.aggregates import RecentAnswers
from fleet.rest.context import RestHub, answer, need
from fleet.rest.membermodels import NodeList
from fleet.rest.models import Model
from fleet.rest.sight import jobs_seen
from fleet.values.ports import Store
from fleet.values.times import rfc3339
from fleet.wellknown import CLUSTER

LIMIT, LIMIT_MAX = 1_000, 5_000
READ_S = 0.5  # between two looks for a new row: the controllers write one in two seconds at most
HELD = 5  # in the row of a node: GPUs by unit
Found = tuple[int, float, Mapping[str, Any]]  # id of the row, epoch second, what it holds


class NodesFilter(Model):
    member: str | None = Field(None, min_length=1, max_length=253, description="Only of this member.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="At most so many.")


class LatestNodes:
    """Reads the newest row, and keeps what it decoded."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: Found | None = None
        self._recent = RecentAnswers[Found | None](READ_S)

    async def latest(self) -> Found | None:
        """None while there is none."""
        return await self._recent.of(NODES, self._read)

    async def _read(self) -> Found | None:
        rows = await self._store.read_history(NODES, limit=1)
        if not rows:
            return None
        if self._kept is None or self._kept[0] != rows[0]["id"]:
            content = await asyncio.to_thread(_decoded, rows[0]["nodes"])
            self._kept = (rows[0]["id"], float(rows[0]["now"]), content)
        return self._kept


def router(hub: RestHub, nodes: LatestNodes) -> APIRouter:
    routes = APIRouter(tags=["clusters"])

    @routes.get("/nodes", response_model=NodeList, summary="The nodes with GPUs, and the jobs on them")
    async def list_nodes(request: Request, query: Annotated[NodesFilter, Query()]) -> Response:
        """By member and name, as the controllers saw them last. Needs `list` on clusters.cluster.karmada.io. Of jobs
        that the user may not get, only the sum of their GPUs is shown."""
        need(request, Attributes("list", CLUSTER, "clusters"))
        found = await nodes.latest()
        if found is None:
            return answer({"at": None, "items": [], "left": 0})
        _, now, content = found
        members, units = content["members"], content["units"]
        asked = members if query.member is None else {query.member: members.get(query.member, [])}
        rows = [(member, row) for member, nodes_of in asked.items() for row in nodes_of]
        rest = len(rows) - query.limit + (content["left"] if query.member is None else 0)
        page = rows[: query.limit]
        seen = jobs_seen(hub, request)
        jobs = {
            key: _job(kind, name, leaf)
            for key in {key for _, row in page for key in row[HELD]} & units.keys()
            for kind, name, leaf in [units[key]]
            if seen(Unit(key, name, (), needs_kind=kind))
        }
        items = [_node(member, row, jobs) for member, row in page]
        return answer({"at": rfc3339(now), "items": items, "left": max(0, rest)})

    return routes


def _job(kind: str, name: str, leaf: str | None) -> dict[str, Any]:
    namespace, _, job = name.partition("/")
    return {"namespace": namespace, "kind": named_kind(kind), "name": job, "queue": leaf}


def _node(member: str, row: list[Any], jobs: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    name, model, gpus, used, state, held = row
    shown = [jobs[unit] | {"gpus": number} for unit, number in sorted(held.items()) if unit in jobs]
    other = max(0, used - sum(job["gpus"] for job in shown))
    return {"member": member, "name": name, "model": model, "gpus": gpus, "state": state, "jobs": shown, "other": other}


def _decoded(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = orjson.loads(zlib.decompress(base64.b64decode(text)))
    return found
