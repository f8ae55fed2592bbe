"""Finished jobs go after their time to live, and not before they are in the history."""

from __future__ import annotations

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.history.expiry import DEFAULT_S, finishing
from tests.controllers.world import World, policy, pytorchjob, tree


def gone(world: World, name: str) -> bool:
    return world.see("PyTorchJob", name) is None


def living(name: str, seconds: int) -> Body:
    body = pytorchjob(name, workers=0)
    body["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": seconds}
    return body


async def over(world: World, body: Body, how: str = "Succeeded") -> float:
    """When the job was over."""
    name = body["metadata"]["name"]
    await world.apply(body)
    await world.running(name)
    world.members.finish(name, how)
    await eventually(lambda: world.state(name) == how)
    return world.clock.now()


async def test_the_time_of_the_job_counts_and_else_that_of_the_hub() -> None:
    async with finishing() as (world, _):
        await world.apply(tree(10), policy(queue=True))
        own, other = await over(world, living("own", 60)), await over(world, pytorchjob("other", workers=0))
        await eventually(lambda: gone(world, "own"), within_s=120)
        assert 55 <= world.clock.now() - own <= 70
        assert not gone(world, "other")
        await eventually(lambda: gone(world, "other"), within_s=2 * DEFAULT_S)
        assert DEFAULT_S - 5 <= world.clock.now() - other <= DEFAULT_S + 10
        await eventually(world.nothing_left, within_s=60)


async def test_a_hub_without_a_default_keeps_what_says_nothing() -> None:
    async with finishing(ttl_s=0.0) as (world, _):
        await world.apply(policy())
        await over(world, pytorchjob("one", workers=0))
        await settle(600)
        assert not gone(world, "one")


async def test_a_job_that_is_not_recorded_stays() -> None:
    async with finishing(recorded=False) as (world, recorder):
        await world.apply(policy())
        await over(world, living("one", 0))
        await settle(100)
        assert not gone(world, "one")
        recorder.revision = 2**60
        uid = (world.see("PyTorchJob", "one") or {})["metadata"]["uid"]
        recorder.unwritten.add(uid)
        await settle(100)
        assert not gone(world, "one"), "the database refused its rows"


async def test_a_failed_job_that_starts_anew_is_not_deleted_before() -> None:
    async with finishing() as (world, _):
        await world.apply(tree(), policy(queue=True))
        await over(world, living("one", 0), "Failed")
        await eventually(lambda: world.attempt("one") == 2, within_s=120)
        await world.running("one")
        assert not gone(world, "one")
