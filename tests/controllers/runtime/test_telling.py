"""The member of a job in its own status and events."""

from __future__ import annotations

from fleet.controllers.runtime.events import COURTESIES_PER_S
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob


async def test_a_job_whose_member_is_lost_shows_it_and_keeps_its_state() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        told = await eventually(lambda: world.condition(world.see("PyTorchJob", "one"), "MemberReachable"), within_s=30)
        assert (told["status"], told["reason"]) == ("False", "MemberUnreachable")
        assert world.state("one") == "Running"
        (event,) = world.events("one", "MemberUnreachable")
        assert event["type"] == "Warning"
        world.members.set_down("cfa", False)
        await eventually(lambda: not world.condition(world.see("PyTorchJob", "one"), "MemberReachable"))


async def test_an_event_tells_that_a_job_was_sent_once() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await settle(30)
        (event,) = world.events("one", "SyncSucceed")
        assert (event["type"], event["count"]) == ("Normal", 1)
        assert event["message"] == "Successfully applied to cluster cfa"


async def test_good_news_of_many_jobs_at_once_is_not_all_told() -> None:
    async with hub(member("cfa", 20)) as world:
        names = [f"j{number}" for number in range(40)]
        await world.apply(policy(), *(pytorchjob(name, workers=0) for name in names))
        for name in names:
            await world.running(name)
        told = sum(len(world.events(name, "SyncSucceed")) for name in names)
        assert 1 <= told <= 5 * COURTESIES_PER_S
