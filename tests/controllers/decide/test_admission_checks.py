"""Admission checks: a job with quota and room waits until all who are asked agree, and nobody takes what it has."""

from __future__ import annotations

import copy

import pytest

from api.engine.patch import MERGE
from api.engine.status import StatusError
from fleet.admission import rules
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.member import Taint
from fleet.values.times import seconds
from fleet.wellknown import ANNOTATION_CHECKS_TIMEOUT
from tests.controllers.decide.checks import answer, asks, reserves, states, status
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import ALICE, hub, member, policy, pytorchjob, tree

TEXT = "Reserved resources success, waiting admission checks to be ready"
UNIT = "one-pytorchjob-rb-qu"


async def test_a_job_with_quota_and_room_is_reserved_and_starts_when_all_checks_are_ready() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget", "licence")
        assert world.message("one") == TEXT
        assert status(world)["nomination"]["member"] == "cfa"
        assert states(world) == [("budget", "Pending"), ("licence", "Pending")]
        await eventually(lambda: world.condition(world.see("PyTorchJob", "one"), "Queuing").get("message") == TEXT)
        assert world.condition(world.unit("one"), "QuotaReserved")["status"] == "True"
        (event,) = world.events("one", "QuotaReserved")
        assert event["message"] == f"{TEXT}: budget, licence (for member cfa)"
        await answer(world, "Ready", index=0)
        await settle()
        assert (world.phase("one"), world.members.where("one")) == ("Reserved", [])
        await answer(world, "Ready", index=1)
        assert await world.running("one") == "cfa"
        assert "nomination" not in status(world)
        assert world.condition(world.unit("one"), "Admitted")["status"] == "True"


async def test_a_job_that_is_reserved_in_a_member_that_is_cordoned_meanwhile_does_not_start_there() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget")
        cordon = Taint("cluster.karmada.io/unschedulable", "", "NoSchedule")
        world.members.by_name["cfa"].taints = (cordon,)
        taints = [{"key": cordon.key, "effect": cordon.effect}]
        await world.edit("Cluster", "cfa", lambda body: body["spec"].update(taints=taints))
        await eventually(lambda: world.phase("one") == "Enqueued")
        (event,) = [e for e in world.events("one", "ScheduleBindingFailed") if "takes no new jobs" in e["message"]]
        assert event["message"] == "member cfa takes no new jobs any more: it has a taint"
        await settle(10)
        assert world.phase("one") == "Enqueued"


async def test_the_checks_of_the_queues_above_are_asked_too_each_once_and_the_nearest_says_for_how_long() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True))
        of_others = {"name": "licence", "labelSelector": {"matchLabels": {"asks": "yes"}}}
        await asks(world, "audit", "budget", of_others, leaf="root", **{ANNOTATION_CHECKS_TIMEOUT: "900"})
        await asks(world, "budget")
        await world.apply(pytorchjob("one"))
        await eventually(lambda: world.phase("one") == "Reserved")
        assert states(world) == [("budget", "Pending"), ("audit", "Pending")]
        nomination = status(world)["nomination"]
        assert seconds(nomination["until"]) == (seconds(nomination["since"]) or 0.0) + 900
        await answer(world, "Ready", index=0)
        await asks(world, "audit", "safety", leaf="root")
        await eventually(lambda: [name for name, _ in states(world)] == ["budget", "audit", "safety"])
        await answer(world, "Ready", index=1)
        await settle()
        assert world.phase("one") == "Reserved"
        await answer(world, "Ready", index=2)
        assert await world.running("one") == "cfa"


async def test_what_a_reserved_job_waits_with_is_taken_by_nobody() -> None:
    async with hub(member("cfa", 1)) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True))
        await asks(world, {"name": "budget", "labelSelector": {"matchLabels": {"asks": "yes"}}})
        asking = pytorchjob("one", workers=4)
        asking["metadata"]["labels"] = {"asks": "yes"}
        await world.apply(asking)
        await eventually(lambda: world.phase("one") == "Reserved")
        await world.apply(pytorchjob("large", workers=3), pytorchjob("small", workers=2))
        await world.running("small")  # three GPUs beside the five that are reserved
        await eventually(lambda: "no member has room" in world.message("large"))
        await answer(world, "Ready")
        assert await world.running("one") == "cfa"


async def test_a_reserved_job_is_charged_to_its_quota() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True))
        await asks(world, {"name": "budget", "labelSelector": {"matchLabels": {"asks": "yes"}}})
        asking = pytorchjob("one")
        asking["metadata"]["labels"] = {"asks": "yes"}
        await world.apply(asking)
        await eventually(lambda: world.phase("one") == "Reserved")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "already runs 1 of at most 1 job" in world.message("two"))
        await world.delete("PyTorchJob", "one")
        await world.running("two")


async def test_a_check_that_rejects_sends_the_job_back_with_a_back_off_and_is_asked_again() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget")
        await answer(world, "Rejected", message="no money left")
        await eventually(lambda: world.phase("one") == "TimeoutBackoff")
        assert "admission check budget rejected it: no money left" in world.message("one")
        assert status(world)["requeueState"]["count"] == 1
        assert world.condition(world.unit("one"), "QuotaReserved")["status"] == "False"
        await eventually(lambda: world.phase("one") == "Reserved")
        assert states(world) == [("budget", "Pending")]
        await answer(world, "Ready")
        assert await world.running("one") == "cfa"
        assert world.attempt("one") == 1


async def test_a_job_whose_checks_stay_silent_gives_its_quota_back_after_a_time() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget", **{"fleet.io/admission-checks-timeout-seconds": "30"})
        await settle(25)
        assert world.phase("one") == "Reserved"
        await eventually(lambda: world.phase("one") == "TimeoutBackoff", within_s=10)
        assert "were not ready within 30 s: budget" in world.message("one")
        (event,) = world.events("one", "ScheduleBindingFailed")
        assert "not ready within 30 s" in event["message"]


async def test_a_queue_that_asks_nothing_any_more_lets_the_reserved_go() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget", "licence")
        await asks(world, "licence", "fresh")
        await eventually(lambda: states(world) == [("licence", "Pending"), ("fresh", "Pending")])
        await asks(world)
        assert await world.running("one") == "cfa"


@pytest.mark.parametrize("what", ["held", "suspended", "edited", "member"])
async def test_what_was_decided_for_something_else_goes_back_without_a_back_off(what: str) -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await reserves(world, "budget")
        before = status(world)["nomination"]
        await settle(2)
        if what == "held":
            await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(active=False))
            await eventually(lambda: (world.phase("one"), "held" in world.message("one")) == ("Enqueued", True))
            await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(active=True))
        elif what == "suspended":
            await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": True}))
            await eventually(lambda: (world.phase("one"), "suspended" in world.message("one")) == ("Enqueued", True))
            await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": False}))
        elif what == "edited":
            await world.apply(pytorchjob("one", workers=3))
        else:
            world.members.set_down(before["member"], True)
            await answer(world, "Ready")
        await eventually(lambda: status(world).get("nomination") not in (None, before))
        assert "requeueState" not in status(world)
        if what == "member":
            assert status(world)["nomination"]["member"] != before["member"]
        await answer(world, "Ready")
        await world.running("one")


async def test_a_reserved_job_that_is_deleted_is_gone() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget")
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.unit("one") is None and world.binding("one") is None)


async def test_what_is_reserved_survives_the_controllers() -> None:
    async with hub(member("cfa")) as world:
        await reserves(world, "budget")
        before = copy.deepcopy(status(world))
        await world.kill()
        world.start()
        await settle()
        assert status(world) == before
        await world.kill()
        await answer(world, "Ready")
        world.start()
        assert await world.running("one") == "cfa"


async def test_a_reserved_job_that_borrows_makes_room_for_an_owner_and_nothing_of_it_has_to_leave() -> None:
    room = {"nvidia.com/gpu": 16}
    body = tree()
    body["spec"]["root"] = {
        "name": "root",
        "min": room,
        "max": room,
        "children": [{"name": "child-2", "namespaces": ["default"]}, {"name": "owner", "min": room}],
    }
    async with hub(member("cfa"), config=ControllerConfig(protection_s=30.0)) as world:
        await world.apply(body, policy(queue=True))
        await asks(world, "budget")
        await world.apply(pytorchjob("one", workers=1, gpus=8))
        await eventually(lambda: world.phase("one") == "Reserved")
        owner = pytorchjob("owner", workers=1, gpus=8)
        owner["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": "owner"}
        await world.apply(owner)
        await settle(20)
        assert (world.phase("one"), world.placed("owner")) == ("Reserved", ""), "it is protected still"
        await eventually(lambda: world.placed("owner") == "cfa", within_s=30)
        assert world.phase("one") == "Enqueued"
        assert "nomination" not in status(world) and "admissionChecks" not in status(world)
        (event,) = world.events("one", "EvictWorkloadFromClusterSucceed")
        assert "makes room for default/owner" in event["message"]
        assert world.members.where("one") == [] and world.attempt("one") == 0
        await world.running("owner")
        world.members.finish("owner")
        await eventually(lambda: world.phase("one") == "Reserved")


async def test_who_answers_for_a_check_changes_nothing_else_of_the_status() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await reserves(world, "budget")
        kind = world.registry.need("scheduling.x-k8s.io", "queueunits")
        for name, value in (("phase", "Dequeued"), ("nomination", {"member": "cfb"}), ("requeueState", {"count": 0})):
            with pytest.raises(StatusError) as refusal:
                await world.objects.patch(kind, "default", UNIT, {"status": {name: value}}, MERGE, ALICE, "status")
            assert [cause.field for cause in refusal.value.causes] == [f"status.{name}"]
        done = [{"name": "budget", "state": "Ready"}]  # a merge patch gives the list as a whole
        await world.objects.patch(kind, "default", UNIT, {"status": {"admissionChecks": done}}, MERGE, ALICE, "status")
        await world.running("one")


async def test_a_state_that_is_none_is_refused_with_its_field() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await reserves(world, "budget")
        with pytest.raises(StatusError) as refusal:
            await answer(world, "Maybe")
        assert refusal.value.causes[0].field == "status.admissionChecks[0].state"
