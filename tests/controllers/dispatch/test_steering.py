"""Times to live and managers of jobs stay on the hub, those of copies too that an older release has sent."""

from __future__ import annotations

import copy

from fleet.values.ports import Body
from tests.controllers.fakemember import key_of
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob


def living(name: str) -> Body:
    job = pytorchjob(name)
    job["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 0, "managedBy": "fleet.io/hub", "cleanPodPolicy": "All"}
    return job


def sent(world: World, name: str) -> Body:
    found = world.members.job("cfa", "default", name)
    assert found is not None
    return found


async def test_a_member_gets_neither_the_time_to_live_nor_the_name_of_the_hub() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), living("one"))
        await world.running("one")
        assert sent(world, "one")["spec"]["runPolicy"] == {"cleanPodPolicy": "All", "suspend": False}
        stored = world.see("PyTorchJob", "one") or {}
        assert stored["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 0


async def test_the_first_look_after_an_upgrade_takes_the_field_from_running_copies() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), living("one"))
        await world.running("one")
        await world.kill()
        older = copy.deepcopy(sent(world, "one"))  # as a release before this sent it
        older["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 0
        older["metadata"]["annotations"]["fleet.io/hash"] = "of-an-older-release"
        world.members.by_name["cfa"].objects[key_of(older)] = older
        world.start()
        await eventually(lambda: "ttlSecondsAfterFinished" not in sent(world, "one")["spec"]["runPolicy"])
        assert sent(world, "one")["metadata"]["uid"] == older["metadata"]["uid"], "the same copy runs on"
        assert (world.attempt("one"), world.state("one")) == (1, "Running")
