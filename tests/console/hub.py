"""A hub in memory with a console, asked as a browser asks it; the clock is set by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from api.access.auth import TokenFile
from api.access.rbac import Rbac
from api.audit.face import Audit
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.server.app import Api
from api.store.memory import MemoryStore
from api.transport.serve import Server
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.console.face import Console
from fleet.console.files import Files
from fleet.console.login import Login
from fleet.console.sessions import Sessions
from fleet.controllers.decide.manifestunits import unit_in
from fleet.hub.face import hub_app
from fleet.rest.changes import PATH, ChangeStreams
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.oidc.issuer import Hand

ORIGIN = {"origin": "https://hub"}
TOKENS = "admin-token,admin,1,system:masters\nalice-token,alice,2,dev\n"


@dataclass
class World:
    app: Api
    store: MemoryStore
    clock: Hand
    tokens: Path
    console: Console
    sessions: Sessions
    pages: Path
    _open: list[httpx.AsyncClient] = field(default_factory=list)

    def browser(self, address: str = "10.0.0.1", app: Api | None = None) -> httpx.AsyncClient:
        """One with a cookie jar of its own."""
        transport = httpx.ASGITransport(app or self.app, client=(address, 1))
        made = httpx.AsyncClient(base_url="https://hub", transport=transport)
        self._open.append(made)
        return made

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Over a socket, for streams; the address."""
        server = Server(self.app, close_streams=self.app.close_streams)
        await server.start()
        try:
            yield server.url
        finally:
            await server.stop()

    async def logged_in(self, token: str = "alice-token") -> httpx.AsyncClient:
        browser = self.browser()
        answer = await browser.post("/console/session", json={"token": token}, headers=ORIGIN)
        assert answer.status_code == 200, answer.text
        return browser

    def stored(self, resource: str = "sessions") -> list[dict[str, Any]]:
        return [one.body for one in self.store.scan("console.fleet.io", resource)]


@asynccontextmanager
async def console_hub(folder: Path, login: Any = None, audit: Audit | None = None) -> AsyncIterator[World]:
    """`login`: makes the login by an issuer of the store, the clock and the authenticator."""
    clock, path, pages = Hand(), folder / "tokens.csv", folder / "static"
    path.write_text(TOKENS)
    pages.mkdir()
    store, registry = MemoryStore(clock), Registry(load_kinds())
    objects = Objects(store, registry, clock, RandomIds(), fill=filled)
    authenticator: Any = TokenFile(path, clock, check_every_s=0)
    made: Login | None = None
    if login is not None:
        made, authenticator = login(store, clock, authenticator)
    sessions = Sessions(store, clock, authenticator)
    console = Console(sessions, clock, made, Files(pages))
    rbac = Rbac(store)
    views = RestFace(objects, store, registry, partial(unit_in, store))
    app = hub_app(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=authenticator,
        authorizer=rbac,
        console=console,
        mounts={PATH: ChangeStreams(store, registry, rbac, WallClock()), PREFIX: views},
        recheck_every_s=0.1,
        audit=audit,
    )
    await store.start()
    await app.start()
    world = World(app, store, clock, path, console, sessions, pages)
    try:
        yield world
    finally:
        for browser in world._open:
            await browser.aclose()
        await app.stop()
        await store.stop()
