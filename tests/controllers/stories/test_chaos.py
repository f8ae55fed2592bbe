"""The controllers killed again and again at random points: everything converges, and nothing that must hold breaks.

I1: a placement is one member. I2: a job has at most one live copy. I6: nothing of ours stays without a binding. The
store's commit and every call to a member are points at which the kill may fall.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest

from api.engine.patch import MERGE
from api.engine.status import StatusError
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree

JOBS = 14


async def watch_invariants(world: World) -> None:
    """Looks at every 10 ms of the loop's time, for as long as it runs."""
    while True:
        for binding in world.all("ResourceBinding"):
            assert len(binding["spec"].get("clusters") or ()) <= 1, binding["metadata"]["name"]
            live = [
                name
                for name, body in world.members.copies(binding["metadata"]["uid"])
                if "deletionTimestamp" not in body["metadata"]
            ]
            assert len(live) <= 1, (binding["metadata"]["name"], live)
        running = [b for b in world.all("QueueUnit") if b["status"].get("phase") == "Running"]
        assert len(running) <= 4
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(4))
async def test_killed_at_random_points_it_converges_and_all_jobs_end(seed: int) -> None:
    chance = random.Random(seed)
    members = [
        member("cfa", 2, runtime_s=3.0),
        member("cfb", 2, runtime_s=3.0, slow_s=0.05),
        member("cfc", 1, runtime_s=2.0),
    ]
    config = ControllerConfig(gang_whole_s=5.0, sweep_s=5.0)
    async with hub(*members, config=config) as world:
        await world.apply(tree(max_jobs=4), policy(queue=True))
        watching = asyncio.get_running_loop().create_task(watch_invariants(world))
        for number in range(JOBS):
            await world.apply(pytorchjob(f"j{number}", workers=chance.choice((0, 1, 3, 6))))
        for _ in range(25):
            await asyncio.sleep(chance.uniform(0.0, 0.6))
            await world.kill()
            trouble = chance.choice(members)
            trouble.lose_answers = chance.random() < 0.3
            trouble.refuse = "no, not now" if chance.random() < 0.2 else ""
            world.start()
        for one in members:
            one.lose_answers, one.refuse = False, ""
        names = [f"j{number}" for number in range(JOBS)]
        await eventually(lambda: all(world.phase(name) == "Succeed" for name in names), within_s=900)
        assert not watching.done(), watching.result()
        for name in names:
            await world.delete("PyTorchJob", name)
            if chance.random() < 0.3:
                await world.kill()
                world.start()
        await eventually(world.nothing_left, within_s=120)
        await settle()
        assert not watching.done(), watching.result()
        watching.cancel()


def asks_for(checks: list[Body]) -> Callable[[Body], None]:
    def change(queue: Body) -> None:
        queue["spec"]["admissionChecks"] = checks

    return change


async def check_at_random(world: World, chance: random.Random) -> None:
    """Answers every admission check that is asked, one time in four with no."""
    kind = world.registry.need("scheduling.x-k8s.io", "queueunits")
    while True:
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        for unit in world.all("QueueUnit"):
            asked = unit["status"].get("admissionChecks") or ()
            answers = [{**check, "state": chance.choice(("Ready", "Ready", "Ready", "Rejected"))} for check in asked]
            if unit["status"].get("phase") == "Reserved" and asked:
                patch = {"status": {"admissionChecks": answers}}
                with contextlib.suppress(StatusError):  # it is gone by now
                    name = unit["metadata"]["name"]
                    await world.objects.patch(kind, "default", name, patch, MERGE, ALICE, "status")


async def watch_reserved(world: World) -> None:
    """A unit that is Reserved is nowhere, and with those that run it never exceeds its quota."""
    while True:
        charged = 0
        for unit in world.all("QueueUnit"):
            phase, job = unit["status"].get("phase"), unit["metadata"]["name"].removesuffix("-pytorchjob-rb-qu")
            if phase == "Reserved":
                assert unit["status"]["nomination"]["member"]
                assert world.placed(job) == ""
            charged += phase in ("Reserved", "Dequeued", "Running")
        assert charged <= 4
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(3))
async def test_reserved_jobs_that_are_rejected_held_edited_and_killed_at_random_all_end(seed: int) -> None:
    chance = random.Random(100 + seed)
    members = [member("cfa", 2, runtime_s=2.0), member("cfb", 1, runtime_s=2.0, slow_s=0.03)]
    async with hub(*members, config=ControllerConfig(gang_whole_s=5.0, sweep_s=5.0)) as world:
        await world.apply(tree(max_jobs=4), policy(queue=True))
        await eventually(lambda: "root/child-2" in world.queues())
        checks = [{"name": "budget"}, {"name": "licence"}]
        queue = world.queues()["root/child-2"]
        await world.edit("Queue", queue, asks_for(checks), namespace="kube-queue")
        loop = asyncio.get_running_loop()
        watching = loop.create_task(watch_reserved(world))
        checker = loop.create_task(check_at_random(world, chance))
        names = [f"j{number}" for number in range(10)]
        for name in names:
            await world.apply(pytorchjob(name, workers=chance.choice((0, 1, 3))))
        for _ in range(25):
            await asyncio.sleep(chance.uniform(0.0, 0.4))
            name = chance.choice(names)
            match chance.choice(("kill", "hold", "suspend", "edit", "ask")):
                case "kill":
                    await world.kill()
                    world.start()
                case "hold" if world.unit(name) is not None:
                    unit = f"{name}-pytorchjob-rb-qu"
                    await world.edit("QueueUnit", unit, lambda u: u["spec"].update(active=False))
                    await asyncio.sleep(0.2)
                    await world.edit("QueueUnit", unit, lambda u: u["spec"].update(active=True))
                case "suspend":
                    await world.edit("PyTorchJob", name, lambda j: j["spec"].update(runPolicy={"suspend": True}))
                    await asyncio.sleep(0.2)
                    await world.edit("PyTorchJob", name, lambda j: j["spec"].update(runPolicy={"suspend": False}))
                case "edit" if not world.placed(name):
                    await world.apply(pytorchjob(name, workers=chance.choice((0, 1, 3))))
                case "ask":
                    asked = chance.choice((checks, checks[:1], checks[1:]))
                    await world.edit("Queue", queue, asks_for(asked), namespace="kube-queue")
        await eventually(lambda: all(world.phase(name) == "Succeed" for name in names), within_s=900)
        assert not watching.done(), watching.result()
        assert not checker.done(), checker.result()
        checker.cancel()
        watching.cancel()
