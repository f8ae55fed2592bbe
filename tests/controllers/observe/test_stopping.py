"""Queues of which nothing starts: their condition, and the jobs that leave where the queue is drained."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.controllers.fields.evictor import Evictor
from fleet.values.ports import Body, StoredObject
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

LEAF = "root/child-2"


async def stop(world: World, path: str, how: str) -> None:
    """`fleet hold queue/PATH`, with --drain or without, and `fleet release`."""
    await eventually(lambda: path in world.queues())
    await world.edit(
        "Queue", world.queues()[path], lambda queue: queue["spec"].update(stopPolicy=how), namespace="kube-queue"
    )


def held(world: World, path: str = LEAF) -> tuple[str, str]:
    """Reason and message of the Queue's condition; empty without one."""
    found = world.condition(world.see("Queue", world.queues()[path], "kube-queue"), "Held")
    return str(found.get("reason", "")), str(found.get("message", ""))


def kept(name: str) -> list[Body]:
    """A job that is not preemptible, and the tree that promises enough for it."""
    job, quota = pytorchjob(name, workers=0), tree(max_jobs=9)
    job["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/preemptible": "false"}
    leaf = quota["spec"]["root"]["children"][0]
    leaf["min"] = leaf["max"]
    return [quota, job]


async def test_a_held_queue_and_the_queues_below_it_say_so() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("runs", workers=0))
        await world.running("runs")
        await stop(world, LEAF, "Hold")
        await eventually(lambda: held(world) == ("Held", "no job starts; jobs that run go on"))
        await stop(world, "root", "Hold")
        await stop(world, LEAF, "None")
        above = "no job starts; the queue root is held; jobs that run go on"
        await eventually(lambda: held(world) == ("HeldAbove", above))
        await stop(world, "root", "None")
        await eventually(lambda: held(world) == held(world, "root") == ("", ""))
        assert await world.running("runs") == "cfa"


async def test_jobs_of_a_drained_queue_leave_and_start_again_when_it_is_released() -> None:
    async with hub(member("cfa")) as world:
        jobs = ("a", "b")
        await world.apply(policy(queue=True), *kept("stays"), *(pytorchjob(name, workers=0) for name in jobs))
        for name in (*jobs, "stays"):
            await world.running(name)
        enqueued = (world.binding("a") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        await stop(world, LEAF, "HoldAndDrain")
        stays = "1 stays: default/stays (it is not preemptible)"
        await eventually(lambda: held(world) == ("JobsStay", f"no job starts; no more jobs leave; {stays}"))
        for name in jobs:
            assert world.placed(name) == "" and world.condition(world.unit(name), "Evicted")["reason"] == "QueueDrained"
            await eventually(lambda name=name: f"the queue {LEAF} is held" in world.message(name))
        await settle(30)
        assert [world.placed(name) for name in (*jobs, "stays")] == ["", "", "cfa"]
        assert (world.binding("a") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == enqueued
        await stop(world, LEAF, "None")
        for name in jobs:
            await world.running(name)
        assert held(world) == ("", "")


async def test_a_drained_queue_drains_the_queues_below_it_and_tells_of_jobs_that_are_leaving() -> None:
    async with hub(member("cfa", delete_s=20.0)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("a", workers=0))
        await world.running("a")
        await stop(world, "root", "HoldAndDrain")
        leaving = "no job starts; 0 to leave, 1 leaving; held up by default/a"
        await eventually(lambda: held(world, "root") == ("WaitsForWork", leaving))
        assert held(world) == ("HeldAbove", "no job starts; the queue root is drained")
        await eventually(lambda: held(world, "root") == ("Drained", "no job starts; no more jobs leave"), within_s=60)


async def test_a_job_that_cannot_be_evicted_keeps_no_other_in_a_drained_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Evictor.evict

    async def evict(self: Evictor, stored: StoredObject, **how: Any) -> bool:
        if stored.body["spec"]["resource"]["name"] == "a":
            raise KeyError("a bug")
        return await sound(self, stored, **how)

    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), *(pytorchjob(name, workers=0) for name in "ab"))
        for name in "ab":
            await world.running(name)
        monkeypatch.setattr(Evictor, "evict", evict)
        await stop(world, LEAF, "HoldAndDrain")
        await eventually(lambda: world.placed("b") == "")
        assert world.placed("a") == "cfa" and held(world)[1].startswith("no job starts; 1 to leave")
