"""A controllers process that has just begun: what the one before it knew of the members is not known yet."""

from __future__ import annotations

from fleet.wellknown import CLUSTER
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

NEAR_FIRST = {
    "clusterAffinities": [
        {"affinityName": "near", "clusterNames": ["cfb"]},
        {"affinityName": "rest", "clusterNames": ["cfa"]},
    ],
    "replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"},
}


async def said_to_be_ready(world: World) -> None:
    """Every Cluster as the process before this one wrote it; nothing has been read from the members."""
    condition = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    for stored in world.store.scan(CLUSTER, "clusters"):
        world.members.set_down(stored.key.name, True)
        await world.hub.edit(
            stored.key, lambda body: body.setdefault("status", {}).update(conditions=[condition]) or True
        )


async def test_nothing_is_decided_or_said_until_the_members_are_known_again() -> None:
    async with hub(member("cfa"), member("cfb"), start=False) as world:
        await said_to_be_ready(world)
        world.members.heard = {"cfa", "cfb"}  # they answer, and their lists are long
        await world.apply(policy(placement=NEAR_FIRST), pytorchjob("train"))
        world.start()
        await settle(2)
        assert not world.events("train"), "that there were no members would not be true"
        world.members.set_down("cfa", False)
        await settle(5)
        assert not world.placed("train"), "it belongs into cfb, which nobody has looked at"
        world.members.set_down("cfb", False)
        assert await world.running("train") == "cfb"


async def test_a_member_that_shows_no_life_is_not_waited_for_beside_others() -> None:
    async with hub(member("cfa"), member("cfb"), start=False) as world:
        await said_to_be_ready(world)
        world.members.set_down("cfa", False)
        await world.apply(policy(placement=NEAR_FIRST), pytorchjob("train"))
        world.start()
        await settle(1.5)
        assert not world.placed("train"), "cfb may just be slow"
        await eventually(lambda: world.placed("train") == "cfa", within_s=2)
        assert world.members.silent_s("cfb") is None


async def test_a_member_whose_lists_never_end_is_not_waited_for_long() -> None:
    async with hub(member("cfa"), member("cfb"), start=False) as world:
        await said_to_be_ready(world)
        world.members.heard = {"cfb"}
        world.members.set_down("cfa", False)
        await world.apply(policy(placement=NEAR_FIRST), pytorchjob("train"))
        world.start()
        await settle(10)
        assert not world.placed("train")
        await eventually(lambda: world.placed("train") == "cfa", within_s=10)
        assert not world.members.ready("cfb")


async def test_without_any_member_nothing_is_said_for_as_long_as_one_may_come() -> None:
    async with hub(member("cfa"), start=False) as world:
        await said_to_be_ready(world)
        await world.apply(policy(), pytorchjob("train"))
        world.start()
        await settle(10)
        assert not world.events("train")
        await eventually(lambda: world.events("train"), within_s=10)
        assert not world.placed("train")
