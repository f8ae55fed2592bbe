"""Garbage collection while everybody else writes to what is to go."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from api.engine.registry import Registry
from api.engine.status import conflict
from api.lifecycle.garbage import GarbageCollector
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.store.memory import MemoryStore
from fleet.admission.kindfiles import load_kinds
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import Body, Key

pytestmark = pytest.mark.xdist_group("chaos")

OPTIONS = Options(User("collector", ("system:masters",)), "test")


class Busy(Objects):
    """Objects whose deletes lose to other writers for a while."""

    lost = 0

    async def delete(self, *arguments: Any, **more: Any) -> Any:
        if self.lost < 3:
            self.lost += 1
            raise conflict("", "configmaps", "dependent")
        return await super().delete(*arguments, **more)


async def test_a_dependent_whose_deletion_loses_to_other_writers_is_deleted_in_the_end() -> None:
    clock = WallClock()
    objects = Busy(MemoryStore(clock), Registry(load_kinds()), clock, RandomIds())
    await objects.store.start()
    await objects.create(objects.registry.need("", "namespaces"), "", named("Namespace", "default"), OPTIONS)
    maps = objects.registry.need("", "configmaps")
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "no-such-uid"}
    dependent = named("ConfigMap", "dependent")
    dependent["metadata"]["ownerReferences"] = [gone]
    await objects.create(maps, "default", dependent, OPTIONS)
    running = asyncio.create_task(GarbageCollector(objects, OPTIONS).run())
    try:
        async with asyncio.timeout(120):
            watch = await objects.store.watch("", "configmaps", since=0)
            async for event in watch:
                if event.type == "DELETED":
                    break
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await objects.store.stop()
    assert objects.lost == 3
    assert objects.store.peek(Key("", "configmaps", "default", "dependent")) is None


def named(kind: str, name: str) -> Body:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
