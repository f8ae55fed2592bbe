"""Faults of the decider under /fleet/v1/faults: its exceptions, and the snapshot of each.

Like decisions these are no objects, so a ClusterRole opens them by path (`nonResourceURLs`). They name jobs of all
namespaces.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.engine.status import not_found
from api.wire.rights import Attributes
from fleet.rest.context import JSON, RestHub, answer, need
from fleet.rest.decisionmodels import FaultList
from fleet.rest.decisions import ID_MAX
from fleet.values.times import rfc3339

KIND = "fault"  # of the store's history
PATH = "/fleet/v1/faults"
MOST = 100  # more than are kept
Number = Annotated[int, Path(alias="id", ge=1, le=ID_MAX, description="As the list says.")]


def router(hub: RestHub) -> APIRouter:
    routes = APIRouter(tags=["decisions"])

    @routes.get("/faults", response_model=FaultList, summary="Faults of the decider, newest first")
    async def list_faults(request: Request) -> Response:
        """The few that are kept. Needs `get` on the path /fleet/v1/faults, as ClusterRoles name paths under
        `nonResourceURLs`."""
        need(request, Attributes("get", path=PATH))
        rows = await hub.store.read_history(KIND, limit=MOST)
        return answer({"items": [_short(row) for row in rows]})

    @routes.get("/faults/{id}/snapshot", summary="What the decider failed on")
    async def get_snapshot(request: Request, number: Number) -> Response:
        """As `fleet decide` takes it. Needs `get` on its path."""
        need(request, Attributes("get", path=f"{PATH}/{number}/snapshot"))
        for row in await hub.store.read_history(KIND, limit=MOST):
            if row["id"] == number:
                return Response(await asyncio.to_thread(_snapshot, row), media_type=JSON)
        raise not_found("", "faults", str(number))

    return routes


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: row[name] for name in ("id", "error", "resort", "trace")}
    return {**said, "at": rfc3339(float(row["now"]))}


def _snapshot(row: Mapping[str, Any]) -> bytes:
    return zlib.decompress(base64.b64decode(row["snapshot"]))
