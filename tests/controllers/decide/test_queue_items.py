"""The waiting units in the status of a Queue."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fleet.controllers.decide import queueitems
from fleet.controllers.decide.loop import DecideLoop
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


def shown(world: World, leaf: str = "root/child-2") -> list[tuple[str, int]] | None:
    """Job and position; None while the Queue says nothing."""
    queue = world.see("Queue", world.queues()[leaf], "kube-queue") or {}
    details = (queue.get("status") or {}).get("queueItemDetails")
    if details is None:
        return None
    items: list[dict[str, Any]] = details["active"]
    assert all(item["namespace"] == "default" for item in items)
    return [(item["name"].removesuffix("-pytorchjob-rb-qu"), item["position"]) for item in items]


async def waiting(world: World, *names: str) -> None:
    for name in names:
        await world.apply(pytorchjob(name))
        await eventually(partial(world.message, name))


async def test_a_queue_shows_who_waits_at_which_place_and_an_empty_list_when_nobody_does() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True))
        await waiting(world, "one", "two", "three")
        await world.edit("QueueUnit", "three-pytorchjob-rb-qu", lambda unit: unit["spec"].update(priority=7))
        await world.edit("QueueUnit", "two-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        await eventually(lambda: shown(world) == [("three", 1), ("one", 2)], within_s=40)
        queue = world.see("Queue", world.queues()["root/child-2"], "kube-queue") or {}
        assert queue["status"]["queueItemDetails"]["active"][0] == {
            "name": "three-pytorchjob-rb-qu",
            "namespace": "default",
            "priority": 7,
            "position": 1,
        }
        assert shown(world, "root") is None
        await world.apply(tree(max_jobs=2))
        await eventually(lambda: shown(world) == [], within_s=40)


async def test_a_long_queue_shows_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueitems, "ITEMS_MAX", 2)
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True))
        await waiting(world, "one", "two", "three")
        await eventually(lambda: shown(world) == [("one", 1), ("two", 2)], within_s=40)


async def test_the_list_is_left_as_it_is_where_an_annotation_says_so() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True))
        await waiting(world, "one")
        await eventually(lambda: shown(world) == [("one", 1)], within_s=40)
        await world.edit(
            "Queue",
            world.queues()["root/child-2"],
            namespace="kube-queue",
            change=lambda queue: queue["metadata"]["annotations"].update({"kube-queue/disable-show-queue-items": ""}),
        )
        await waiting(world, "two")
        await settle(40)
        assert shown(world) == [("one", 1)]


async def test_writing_it_down_is_no_reason_to_decide_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[DecideLoop] = []
    made = DecideLoop.__init__

    def noted(self: DecideLoop, *arguments: Any) -> None:
        made(self, *arguments)
        loops.append(self)

    monkeypatch.setattr(DecideLoop, "__init__", noted)
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True))
        await waiting(world, "one")
        await settle(5)
        cycles = loops[0].cycles
        await eventually(lambda: shown(world) == [("one", 1)], within_s=40)
        await settle(60)
        assert loops[0].cycles == cycles
