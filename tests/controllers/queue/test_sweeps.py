"""Sweeps of which so many jobs run at once."""

from __future__ import annotations

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

JOBS = ("a", "b", "c", "d")


def of_sweep(name: str, most: int = 2, sweep: str = "lr", namespace: str = "default") -> Body:
    job = pytorchjob(name, workers=0, namespace=namespace)
    job["metadata"] |= {"labels": {"fleet.io/sweep": sweep}, "annotations": {"fleet.io/at-most": str(most)}}
    return job


def placed(world: World) -> list[str]:
    return [name for name in JOBS if world.placed(name)]


async def test_a_sweep_runs_so_many_of_its_jobs_at_once() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True, failover=None))
        await world.apply(*map(of_sweep, JOBS), of_sweep("other", 1, "seed"), pytorchjob("free"))
        for name in ("a", "b", "other", "free"):
            await world.running(name)
        await eventually(lambda: world.message("d") == "sweep lr runs at most 2 at once")
        await settle(20)
        assert placed(world) == ["a", "b"]
        world.members.finish("a", "Failed")
        await world.running("c")
        await settle(20)
        assert placed(world) == ["a", "b", "c"]  # a is over, and keeps its place
        await world.delete("PyTorchJob", "b")
        await world.running("d")


async def test_a_job_that_leaves_its_member_counts_until_it_is_gone() -> None:
    async with hub(member("cfa")) as world:
        world.members.by_name["cfa"].delete_s = 30.0
        await world.apply(tree(max_jobs=9), policy(queue=True), of_sweep("a", 1), of_sweep("b", 1))
        await world.running("a")
        await world.delete("PyTorchJob", "a")
        await settle(20)
        assert placed(world) == ["a"]
        await eventually(lambda: placed(world) == ["b"], within_s=60)


async def test_without_a_queue_the_bound_holds_too() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(failover=None), *(of_sweep(name, 1) for name in JOBS))
        await world.running("a")
        await settle(20)
        assert placed(world) == ["a"]
        world.members.finish("a")
        await world.running("b")
        assert placed(world) == ["a", "b"]
