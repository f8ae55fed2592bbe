"""Owners that own each other."""

from __future__ import annotations

import asyncio
from typing import Any

from api.engine.registry import Registry
from api.lifecycle.garbage import GarbageCollector
from api.objects.objects import Objects
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from tests.controllers.fastloop import LoopClock, eventually
from tests.controllers.lifecycle.options import OPTIONS
from tests.controllers.world import CountingIds

RING = ("one", "two", "three")


async def test_a_circle_of_owners_ends_in_the_foreground() -> None:
    objects = Objects(MemoryStore(LoopClock()), Registry(load_kinds()), LoopClock(), CountingIds(), fill=filled)
    loop = asyncio.create_task(GarbageCollector(objects, OPTIONS).run())
    namespaces, kind = (objects.registry.need("", name) for name in ("namespaces", "configmaps"))
    await objects.create(namespaces, "", {"metadata": {"name": "team"}}, OPTIONS)
    uids = {}
    for name in RING:
        made = await objects.create(kind, "team", {"metadata": {"name": name}}, OPTIONS)
        uids[name] = made.body["metadata"]["uid"]
    for name, owner in zip(RING, (RING[-1], *RING), strict=False):
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": uids[owner],
            "blockOwnerDeletion": True,
        }

        def own(body: Any, reference: Any = reference) -> Any:
            body["metadata"]["ownerReferences"] = [reference]
            return body

        await objects.change(kind, "team", name, own, OPTIONS)
    try:
        await objects.delete(kind, "team", "one", OPTIONS, {"propagationPolicy": "Foreground"})
        await eventually(lambda: not objects.store.scan("", "configmaps", namespace="team"))
        assert not objects.store.scan("", "configmaps", namespace="team")
    finally:
        loop.cancel()
