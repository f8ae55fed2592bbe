"""The hub's API over a store in memory, asked in-process: all kinds, rules, RBAC and /fleet/v1, no sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from api.access.auth import AnyOf, ServiceAccountTokens, StaticTokens
from api.access.rbac import Rbac
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.server.app import Api
from api.server.openapi import OpenApi
from api.store.memory import MemoryStore
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.decide.manifestunits import unit_in
from fleet.hub.face import hub_app
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import RandomIds, WallClock
from tests.security.certificate import key_pem

ADMIN = User("admin", ("system:masters",))
USERS = {"admin-token": ADMIN, "nobody-token": User("nobody")}


@dataclass
class Hub:
    app: Api
    objects: Objects
    store: MemoryStore
    registry: Registry

    def client(self, token: str = "admin-token") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(base_url="https://hub", headers=headers, transport=transport, timeout=60)

    async def create(self, resource: str, body: dict[str, Any], group: str = "", namespace: str = "") -> None:
        await self.objects.create(self.registry.need(group, resource), namespace, body, Options(ADMIN, "test"))


@asynccontextmanager
async def open_hub() -> AsyncIterator[Hub]:
    """With the namespace `default`, an admin and a user without any right."""
    clock = WallClock()
    store = MemoryStore(clock)
    registry = Registry(load_kinds())
    objects = Objects(store, registry, clock, RandomIds(), rules=rules(), fill=filled)
    tokens = ServiceAccountTokens(key_pem(), store, clock)
    app = hub_app(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=AnyOf(StaticTokens(USERS), tokens),
        authorizer=Rbac(store),
        openapi=OpenApi(registry),
        tokens=tokens,
        mounts={PREFIX: RestFace(objects, store, registry, partial(unit_in, store))},
    )
    await store.start()
    await app.start()
    try:
        hub = Hub(app, objects, store, registry)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await hub.create("namespaces", namespace)
        yield hub
    finally:
        await app.stop()
        await store.stop()
