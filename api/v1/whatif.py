"""The snapshot under /fleet/v1/snapshot: all that the next decision looks at.

Like decisions it is no object, so a ClusterRole opens it by path (`nonResourceURLs`). It names jobs of all namespaces.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.rbac import Attributes
from api.v1.context import JSON, need
from api.v1.latest import LatestSnapshots

PATH = "/fleet/v1/snapshot"


def router(snapshots: LatestSnapshots) -> APIRouter:
    routes = APIRouter(tags=["decisions"])

    @routes.get("/snapshot", summary="All that the next decision looks at")
    async def get_snapshot(request: Request) -> Response:
        """As `fleet decide` and `fleet what-if` take it; `now` says of when it is. Needs `get` on the path
        /fleet/v1/snapshot, as ClusterRoles name paths under `nonResourceURLs`."""
        need(request, Attributes("get", path=PATH))
        return Response(await snapshots.raw(), media_type=JSON, headers={"cache-control": "no-cache, private"})

    return routes
