"""A process that has not heard of another's writes: its first try is of an older object, and its answer is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.engine.patch import MERGE
from api.engine.registry import Registry
from api.engine.status import StatusError
from api.objects.objects import Objects
from fleet.admission.kindfiles import load_kinds
from fleet.values.ports import Body
from tests.api.objects.conftest import OPTIONS, CountingIds, FixedClock
from tests.api.store.world import PostgresWorld

MAP, SPACE = "configmaps", "default"


@dataclass
class Hub:
    """Two processes of one hub; `behind` hears nothing of what `ahead` writes, until it asks."""

    ahead: Objects
    behind: Objects
    registry: Registry

    async def make(self, name: str, **fields: Any) -> Body:
        body = {"metadata": {"name": name}, **fields}
        return (await self.ahead.create(self.registry.need("", MAP), SPACE, body, OPTIONS)).body

    async def patch(self, objects: Objects, name: str, patch: Any) -> Body:
        return (await objects.patch(self.registry.need("", MAP), SPACE, name, patch, MERGE, OPTIONS)).body


@pytest.fixture
async def hub(database_url: str, tmp_path: Path) -> AsyncIterator[Hub]:
    world = PostgresWorld(database_url, tmp_path / "keys.json")
    registry, ids, clock = Registry(load_kinds()), CountingIds(), FixedClock()
    store, sleeper = await world.open(), await world.open()
    ahead, behind = Objects(store, registry, clock, ids), Objects(sleeper, registry, clock, ids)
    await ahead.create(registry.need("", "namespaces"), "", {"metadata": {"name": SPACE}}, OPTIONS)
    await sleeper.revision()
    follower = sleeper._tasks[1]
    follower.cancel()
    await asyncio.wait([follower])
    yield Hub(ahead, behind, registry)
    await world.close()


async def test_a_patch_keeps_what_another_process_wrote(hub: Hub) -> None:
    await hub.make("a", data={"x": "1"})
    await hub.patch(hub.behind, "a", {"data": {"y": "1"}})
    await hub.patch(hub.ahead, "a", {"data": {"x": "2"}})
    assert (await hub.patch(hub.behind, "a", {"data": {"y": "2"}}))["data"] == {"x": "2", "y": "2"}


async def test_a_revision_that_another_process_wrote_is_no_conflict(hub: Hub) -> None:
    made = await hub.make("a", data={"x": "1"})
    await hub.patch(hub.behind, "a", {"data": {"y": "1"}})
    newest = await hub.patch(hub.ahead, "a", {"data": {"x": "2"}})
    kind = hub.registry.need("", MAP)
    body = {"metadata": {"name": "a", "resourceVersion": newest["metadata"]["resourceVersion"]}, "data": {"x": "3"}}
    assert (await hub.behind.update(kind, SPACE, "a", body, OPTIONS)).body["data"] == {"x": "3"}
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    with pytest.raises(StatusError, match="the object has been modified"):
        await hub.behind.update(kind, SPACE, "a", body, OPTIONS)


async def test_an_object_that_another_process_made_is_found_and_one_that_it_removed_is_not(hub: Hub) -> None:
    kind = hub.registry.need("", MAP)
    await hub.make("a")
    assert (await hub.patch(hub.behind, "a", {"data": {"x": "1"}}))["data"] == {"x": "1"}
    await hub.ahead.delete(kind, SPACE, "a", OPTIONS)
    with pytest.raises(StatusError, match="not found"):
        await hub.behind.delete(kind, SPACE, "a", OPTIONS)


async def test_a_patch_that_changes_nothing_answers_with_the_newest_object(hub: Hub) -> None:
    await hub.make("a", data={"x": "1"})
    await hub.patch(hub.behind, "a", {"data": {"y": "1"}})
    newest = await hub.patch(hub.ahead, "a", {"data": {"x": "2"}})
    assert await hub.patch(hub.behind, "a", {"data": {"y": "1"}}) == newest
