"""An API whose requests take turns, with one path that does what the test gives it to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from api.access.auth import StaticTokens
from api.access.rbac import AllowAll
from api.engine.registry import Registry
from api.fairness.gate import Fairness
from api.objects.objects import Objects
from api.objects.writing import User
from api.store.memory import MemoryStore
from api.wire.http import Answer, Request, json_response
from api.wire.routing import Route
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.hub.face import hub_app
from fleet.simulate.wall import RandomIds, WallClock

AUTHENTICATED = "system:authenticated"
USERS = {
    "root": User("root", ("system:masters", AUTHENTICATED)),
    "ann": User("ann", (AUTHENTICATED,)),
    "flood": User("flood", (AUTHENTICATED,)),
}
WORK = "/api/v1/namespaces/default/pods/a/work"
PATIENCE_S = 30.0


@dataclass
class World:
    fairness: Fairness
    app: Any
    work: Callable[[Request], Awaitable[None]]
    order: list[str] = field(default_factory=list)

    def client(self, token: str = "root") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.AsyncClient(
            base_url="https://hub", headers=headers, transport=httpx.ASGITransport(self.app), timeout=60
        )


async def _nothing(request: Request) -> None:
    pass


@asynccontextmanager
async def world(*, work: Callable[[Request], Awaitable[None]] = _nothing, seats: int = 600) -> AsyncIterator[World]:
    """`work` is what a GET of WORK does."""
    clock, registry = WallClock(), Registry(load_kinds())
    store = MemoryStore(clock)
    objects = Objects(store, registry, clock, RandomIds(), rules=rules(), fill=filled)
    fairness = Fairness(objects, seats)

    async def worked(route: Route, request: Request) -> Answer:
        await opened.work(request)
        opened.order.append(request.user.name)
        return json_response({})

    app = hub_app(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=StaticTokens(USERS),
        authorizer=AllowAll(),
        extra_routes={("", "pods", "work"): worked},
        fairness=fairness,
    )
    opened = World(fairness, app, work)
    await store.start()
    await app.start()
    try:
        yield opened
    finally:
        await app.stop()
        await store.stop()


async def until(there: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await there():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.01)
