"""The walk-through on the controllers: what the reader of it sees, in its words."""

from __future__ import annotations

from tests.controllers.fastloop import eventually
from tests.controllers.world import hub, member, policy, pytorchjob, tree


async def test_a_job_goes_whole_to_one_member_and_the_event_says_so_letter_for_letter() -> None:
    async with hub(member("cfa"), member("cfb", gpus=1, count=1)) as world:
        await world.apply(policy(), pytorchjob("pytorch-test"))
        assert await world.running("pytorch-test") == "cfa"
        (event,) = world.events("pytorch-test", "ScheduleBindingSucceed")
        assert event["message"] == ("Binding has been scheduled successfully. Result: {cfa:0,[{master 1} {worker 2}]}")
        assert (event["type"], event["source"]) == ("Normal", {"component": "default-scheduler"})
        assert world.members.where("pytorch-test") == ["cfa"]


async def test_with_the_queue_a_second_job_waits_says_why_and_starts_when_the_first_succeeds() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "root/child-2 already runs 1 of at most 1 job" in world.message("two"))
        assert world.phase("two") == "Enqueued"
        assert world.state("two") == "Queuing"
        assert world.members.where("two") == []
        world.members.finish("one")
        assert await world.running("two") == "cfa"
        assert world.phase("one") == "Succeed"
        assert world.phase("two") == "Running"
