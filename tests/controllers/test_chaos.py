"""The controllers killed again and again at random points: everything converges, and nothing that must hold breaks.

I1: a placement is one member. I2: a job has at most one live copy. I6: nothing of ours stays without a binding. The
store's commit and every call to a member are points at which the kill may fall.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from fleet.controllers.hub import ControllerConfig
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

JOBS = 14


async def watch_invariants(world: World) -> None:
    """Looks at every 10 ms of the loop's time, for as long as it runs."""
    while True:
        for binding in world.all("ResourceBinding"):
            assert len(binding["spec"].get("clusters") or ()) <= 1, binding["metadata"]["name"]
            live = [
                name for name, body in world.members.copies(binding["metadata"]["uid"])
                if "deletionTimestamp" not in body["metadata"]
            ]  # fmt: skip
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
