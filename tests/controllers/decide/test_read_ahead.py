"""Many bindings that changed are read beside the event loop; the picture is the same."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fleet.controllers.decide import snapshot as subject
from fleet.controllers.decide import units
from fleet.controllers.decide.snapshot import READ_AT_ONCE, SnapshotBuilder
from fleet.core.model.unit import Unit
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

MANY = READ_AT_ONCE + 50


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that read a unit anew, one entry for each time."""
    threads: list[int] = []
    made = units.base_unit

    def base_unit(*around: Any) -> Unit:
        threads.append(threading.get_ident())
        return made(*around)

    monkeypatch.setattr(subject, "base_unit", base_unit)
    return threads


async def waiting(world: World, count: int) -> None:
    """So many jobs wait, since their queue runs none."""
    world.start()
    await world.apply(tree(max_jobs=0), policy(queue=True), *(pytorchjob(f"job-{n}") for n in range(count)))
    await eventually(lambda: all(world.unit(f"job-{n}") for n in range(count)))
    await world.kill()


async def test_many_changed_bindings_are_read_in_another_thread_and_once(read_by: list[int]) -> None:
    async with hub(member("cfa"), start=False) as world:
        await waiting(world, MANY)
        plain = SnapshotBuilder(world.store, world.members).build(world.clock.now())
        read_by.clear()
        builder = SnapshotBuilder(world.store, world.members)
        await builder.read_ahead()
        assert len(read_by) == MANY and threading.get_ident() not in read_by
        picture = builder.build(world.clock.now())
        assert len(read_by) == MANY, "all were read before"
        assert picture.snapshot == plain.snapshot
        assert picture.sources == plain.sources


async def test_a_few_changed_bindings_are_read_by_the_picture_itself(read_by: list[int]) -> None:
    async with hub(member("cfa"), start=False) as world:
        await waiting(world, 3)
        read_by.clear()
        builder = SnapshotBuilder(world.store, world.members)
        await builder.read_ahead()
        assert read_by == []
        assert len(builder.build(world.clock.now()).snapshot.units) == 3
        assert set(read_by) == {threading.get_ident()}


async def test_labels_that_no_job_asks_for_any_more_tell_no_nodes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(member("cfa"), start=False) as world:
        world.start()
        named = pytorchjob("named")
        for replica in named["spec"]["pytorchReplicaSpecs"].values():
            replica["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
        await world.apply(tree(max_jobs=0), policy(queue=True), named)
        await eventually(lambda: world.unit("named") is not None)
        await world.kill()
        told: list[frozenset[tuple[str, str]]] = []
        monkeypatch.setattr(world.members, "tell_apart", told.append)
        builder = SnapshotBuilder(world.store, world.members)
        builder.build(world.clock.now())
        builder.build(world.clock.now())
        assert told == [frozenset({("kubernetes.io/hostname", "n1")})]
        world.start()
        await world.delete("PyTorchJob", "named")
        await eventually(lambda: world.unit("named") is None)
        await world.kill()
        builder.build(world.clock.now())
        assert told[1:] == [frozenset()]
