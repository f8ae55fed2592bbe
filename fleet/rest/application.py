"""The FastAPI application behind /fleet/v1. Imported by mount.py when it is first asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from api.engine.registry import Registry
from api.fairness.questions import Questions
from api.objects.objects import Objects
from api.wire.http import ASGIApp
from fleet.admission.latest import LatestSnapshots
from fleet.rest import (
    check,
    clusters,
    decisions,
    docs,
    faults,
    gpuuse,
    history,
    hubstatus,
    jobs,
    nodes,
    notifications,
    overtime,
    queues,
    tokens,
    topology,
    whatif,
)
from fleet.rest.context import RestHub, answer
from fleet.rest.errors import install
from fleet.rest.explanations import Explanations
from fleet.rest.historydb import HistoryDatabase
from fleet.rest.hubstatus import StatusParts
from fleet.rest.line import Lines
from fleet.rest.models import Status
from fleet.rest.mount import PREFIX
from fleet.rest.questions import UnitOf
from fleet.rest.shares import FairShares
from fleet.values.ports import Store

TITLE = "Fleet REST API"
DESCRIPTION = (
    "Jobs, queues, clusters and decisions of a Fleet hub, for people and programs that are not Kubernetes clients. "
    "These are views of the objects that the hub's Kubernetes API serves, under the same credentials and roles.\n\n"
    "This page and its document are open; every other request carries `Authorization: Bearer TOKEN`, with a token of "
    "`fleet token create`, of a kubeconfig or of a ServiceAccount. Browsers send none by themselves: use curl, kubectl "
    "get --raw or a program. Every refusal is a Status: `code`, `reason`, `message`, and "
    "in `details.causes` the fields that are wrong. Times are RFC 3339 in UTC; amounts are Kubernetes quantities."
)


def build(
    objects: Objects,
    store: Store,
    registry: Registry,
    unit_of: UnitOf,
    past: HistoryDatabase | None = None,
    parts: StatusParts | None = None,
    user_tokens: tokens.Tokens | None = None,
    lines: Lines | None = None,
) -> ASGIApp:
    """The application; wants `fleet.user` and `fleet.authorizer` in the scope of each request."""
    hub = RestHub(objects, store, registry)
    lines, records = lines or Lines(store), past or HistoryDatabase()
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version="v1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={"default": {"model": Status, "description": "Any refusal."}},
    )
    install(app)
    snapshots, turns = LatestSnapshots(store), Questions()
    latest_nodes = nodes.LatestNodes(store)
    for routes in (
        jobs.router(hub, lines, Explanations(store, snapshots, turns)),
        clusters.router(hub),
        nodes.router(hub, latest_nodes),
        topology.router(hub, latest_nodes),
        gpuuse.router(hub),
        queues.router(hub, lines, FairShares(snapshots)),
        decisions.router(hub, turns),
        faults.router(hub),
        hubstatus.router(hub, parts),
        whatif.router(hub, snapshots, unit_of, turns),
        overtime.router(hub, records),
        history.router(hub, records),
        notifications.router(hub, records),
        check.router(hub, snapshots, unit_of, turns),
        tokens.router(hub, user_tokens),
    ):
        app.include_router(routes, prefix=PREFIX)

    @cache
    def pages() -> tuple[dict[str, Any], str]:
        document = _document(app)
        return document, docs.page(document, f"{PREFIX}/openapi.json")

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return answer(pages()[0])

    @app.get(f"{PREFIX}/docs", include_in_schema=False)
    @app.get(PREFIX, include_in_schema=False)
    async def documentation(request: Request) -> Response:
        return HTMLResponse(pages()[1], headers={"content-security-policy": docs.POLICY})

    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the ways to authenticate."""
    document = app.openapi()
    document.setdefault("components", {})["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    return document
