"""What a namespace has from its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from api.engine.registry import Registry
from api.lifecycle.namespaces import Namespaces
from api.objects.objects import Objects
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from tests.controllers.fastloop import LoopClock, eventually
from tests.controllers.lifecycle.options import OPTIONS
from tests.controllers.world import CountingIds

NAME = "kube-root-ca.crt"


@asynccontextmanager
async def running(certificate: str) -> AsyncIterator[Objects]:
    store = MemoryStore(LoopClock())
    objects = Objects(store, Registry(load_kinds()), LoopClock(), CountingIds(), fill=filled)
    loop = asyncio.create_task(Namespaces(objects, OPTIONS, certificate).run())
    kind = objects.registry.need("", "namespaces")
    await objects.create(kind, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, OPTIONS)
    try:
        yield objects
    finally:
        loop.cancel()


def said(objects: Objects) -> Any:
    found = {stored.key.name: stored.body for stored in objects.store.scan("", "configmaps", namespace="team")}
    return found[NAME].get("data") if NAME in found else None


def has_account(objects: Objects) -> bool:
    return len(objects.store.scan("", "serviceaccounts", namespace="team")) == 1


async def test_every_namespace_says_whom_to_trust_whoever_changes_it() -> None:
    async with running("PEM") as objects:
        kind = objects.registry.need("", "configmaps")
        await eventually(lambda: said(objects) == {"ca.crt": "PEM"})
        await objects.delete(kind, "team", NAME, OPTIONS, {})
        await eventually(lambda: said(objects) == {"ca.crt": "PEM"})

        def spoil(body: Any) -> Any:
            body["data"] = {"ca.crt": "mine"}
            return body

        await objects.change(kind, "team", NAME, spoil, OPTIONS)
        assert said(objects) == {"ca.crt": "mine"}
        await eventually(lambda: said(objects) == {"ca.crt": "PEM"})


async def test_without_a_certificate_there_is_only_the_account() -> None:
    async with running("") as objects:
        await eventually(lambda: has_account(objects))
        assert not objects.store.scan("", "configmaps", namespace="team")
