"""At rest nothing is written: no two loops disagree, whatever state a job is in."""

from __future__ import annotations

from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

TERM = 1  # the write by which a leader begins its term


async def assert_quiet(world: World) -> None:
    await settle(30)
    before, seen = await world.store.revision(), dict(world.store.stats.by_resource)
    await settle(60)
    written = {k: v - seen.get(k, 0) for k, v in world.store.stats.by_resource.items() if v != seen.get(k, 0)}
    assert await world.store.revision() == before, written


async def test_a_job_that_waits_one_that_runs_and_one_that_is_over_cost_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("over"))
        await world.running("over")
        world.members.finish("over")
        await eventually(lambda: world.phase("over") == "Succeed")
        await world.apply(pytorchjob("runs"))
        await world.running("runs")
        await world.apply(pytorchjob("waits"))
        await eventually(lambda: world.message("waits"))
        await assert_quiet(world)


async def test_a_job_in_a_member_that_is_cut_off_costs_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        await eventually(lambda: "cannot be reached" in world.message("one"), within_s=30)
        await assert_quiet(world)


async def test_a_job_placed_outside_of_quota_and_one_too_large_cost_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("fits"), pytorchjob("large", workers=99))
        await world.running("fits")
        await eventually(lambda: world.events("large", "ScheduleBindingFailed"))
        await assert_quiet(world)


async def test_the_controllers_started_again_write_nothing_new() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("runs"), policy("p2", namespace="team-b"))
        await world.running("runs")
        await world.apply(pytorchjob("waits"), pytorchjob("out", namespace="team-b"))
        await eventually(lambda: world.message("waits"))
        await settle(20)
        await world.kill()
        before = await world.store.revision()
        world.start()
        await settle(30)
        assert await world.store.revision() == before + TERM


async def test_controllers_that_start_before_their_members_answer_take_nothing_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("runs"))
        await world.running("runs")
        await settle(5)
        await world.kill()
        world.members.set_down("cfa", True)
        world.members.by_name["cfa"].frozen = ({}, {})  # a new process has seen nothing of it yet
        before = await world.store.revision()
        world.start()
        await settle(8)
        assert await world.store.revision() == before + TERM
        assert (world.state("runs"), world.phase("runs"), world.placed("runs")) == ("Running", "Running", "cfa")
        world.members.set_down("cfa", False)
        await settle(5)
        assert (world.state("runs"), world.phase("runs")) == ("Running", "Running")
