"""A queued gang that needs new nodes starts in a member where room is held: its placeholders make the nodes come."""

from __future__ import annotations

from fleet.bindings.nomination import reserved_placement_of
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Pool
from tests.controllers.decide.checks import status
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.room.placeholders import enable, placeholders, rival, submit
from tests.controllers.world import GIB, World, hub, member, nodes, policy, pytorchjob, tree

FAST = ControllerConfig(room_held_s=5.0, nodes_added_s=120.0)
NODE = Amounts.of({"cpu": 96_000, "memory": 512 * GIB, "nvidia.com/gpu": 8, "pods": 110})


def growing(count: int = 1) -> FakeMember:
    return member("cfa", count=count, potential=(Pool(free=((NODE, 4),), allocatable=NODE),))


def grow(world: World, one: FakeMember, count: int) -> None:
    """What its autoscaler does about pods that wait."""
    one.nodes |= nodes(count, prefix="new")
    for pod in placeholders(one):
        if not pod.node:
            world.members._seat(one, pod)
    world.members.set_down(one.name, False)


async def test_it_waits_for_the_nodes_and_says_so_and_starts_when_they_are_there() -> None:
    async with hub(growing(), config=FAST) as world:
        cfa = world.members.by_name["cfa"]
        await submit(world, "cfa", gpus=8)
        await eventually(lambda: len(placeholders(cfa)) == 3)
        await settle(60)
        assert world.phase("one") == "Reserved" and len(placeholders(cfa)) == 3
        (check,) = status(world)["admissionChecks"]
        assert check["state"] == "Pending"
        assert check["message"] == "1 of 3 placeholders have a node; member cfa has to add others"
        assert world.message("one") == (
            "Reserved resources success, waiting for nodes that the autoscaler of member cfa has to add"
        )
        grow(world, cfa, 2)
        assert await world.running("one") == "cfa"
        assert world.attempt("one") == 1 and not world.events("one", "ScheduleBindingFailed")


async def test_nodes_that_never_come_end_the_wait() -> None:
    async with hub(growing(), config=FAST) as world:
        await submit(world, "cfa", gpus=8)
        await eventually(lambda: world.phase("one") == "Reserved")
        began = world.clock.now()
        await eventually(lambda: world.events("one", "ScheduleBindingFailed"), within_s=200.0)
        assert 119.0 <= world.clock.now() - began <= 125.0
        (failed,) = world.events("one", "ScheduleBindingFailed")
        assert failed["message"].startswith("member cfa does not hold its room: ")


async def test_its_wait_is_not_cut_short_by_the_patience_for_checks() -> None:
    config = ControllerConfig(room_held_s=5.0, nodes_added_s=120.0, admission_checks_s=10.0)
    async with hub(growing(), config=config) as world:
        await submit(world, "cfa", gpus=8)
        await eventually(lambda: world.phase("one") == "Reserved")
        nomination = reserved_placement_of(world.unit("one"))
        assert nomination is not None and nomination.until - nomination.since == 130.0


async def test_a_place_on_a_node_that_is_there_is_refused_at_once_in_such_a_member_too() -> None:
    async with hub(growing(count=2), config=FAST) as world:
        cfa = world.members.by_name["cfa"]
        await enable(world, "cfa")
        for node in cfa.nodes:
            rival(cfa, node, 0)
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one", workers=1, gpus=8))
        await eventually(lambda: world.phase("one") in ("Reserved", "Dequeued", "Running"))
        nomination = reserved_placement_of(world.unit("one"))
        assert nomination is None or not nomination.grows
