"""People hold, suspend, reorder and limit jobs: what starts, what stops, and what the job says about it."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob, tree

UNIT = "one-pytorchjob-rb-qu"


def suspended(job: Body, value: bool = True) -> Body:
    job["spec"]["runPolicy"] = {"suspend": value}
    return job


def suspend(value: bool) -> Any:
    return lambda job: suspended(job, value)


async def test_a_job_that_is_created_suspended_waits_uncharged_until_it_is_resumed() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), suspended(pytorchjob("one")))
        await eventually(lambda: "suspended" in world.message("one"))
        assert (world.unit("one") or {})["status"]["reason"]["code"] == "Suspended"
        assert world.condition(world.binding("one"), "Scheduled")["reason"] == "Suspended"
        await world.apply(pytorchjob("two"))
        await world.running("two")  # the one job that the quota allows
        world.members.finish("two")
        await eventually(lambda: world.phase("two") == "Succeed")
        await world.edit("PyTorchJob", "one", suspend(False))
        assert await world.running("one") == "cfa"
        assert world.attempt("one") == 1


async def test_a_suspended_job_outside_quota_says_so_itself() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), suspended(pytorchjob("one")))
        await eventually(lambda: world.state("one") == "Suspended")
        assert "suspended" in world.condition(world.see("PyTorchJob", "one"), "Pending")["message"]
        assert world.members.where("one") == []
        await world.edit("PyTorchJob", "one", suspend(False))
        assert await world.running("one") == "cfa"


async def test_a_batch_job_can_be_suspended_too() -> None:
    async with hub(member("cfa")) as world:
        container = {"name": "c", "image": "registry.example/x:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
        await world.apply(policy(resourceSelectors=[{"apiVersion": "batch/v1", "kind": "Job"}]), job)
        await eventually(lambda: world.condition(world.binding("one", "job"), "Scheduled").get("reason") == "Suspended")
        await world.edit("Job", "one", lambda body: body["spec"].update(suspend=False))
        await eventually(lambda: (world.binding("one", "job") or {})["spec"].get("clusters"))


async def test_a_running_job_that_is_suspended_is_charged_until_its_pods_are_gone_and_waits_again() -> None:
    async with hub(member("cfa", delete_s=5.0)) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await world.edit("PyTorchJob", "one", suspend(True))
        await eventually(lambda: world.placed("one") == "")
        assert world.members.by_name["cfa"].pods and world.placed("two") == ""
        await world.running("two")
        assert world.members.where("one") == []
        await eventually(lambda: "suspended" in world.message("one"))
        world.members.finish("two")
        await eventually(lambda: world.phase("two") == "Succeed")
        await world.edit("PyTorchJob", "one", suspend(False))
        await world.running("one")
        assert world.attempt("one") == 2


async def test_a_job_that_is_over_is_not_moved_by_suspending_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await world.edit("PyTorchJob", "one", suspend(True))
        await settle()
        assert (world.phase("one"), world.placed("one")) == ("Succeed", "cfa")


async def test_the_hold_annotation_keeps_a_job_from_starting_with_and_without_a_queue() -> None:
    for queue in (True, False):
        async with hub(member("cfa")) as world:
            job = pytorchjob("one")
            job["metadata"]["annotations"] = {"fleet.io/hold": "true"}
            await world.apply(tree(), policy(queue=queue), job)
            await eventually(lambda w=world: w.condition(w.binding("one"), "Scheduled").get("reason") == "Held")
            await world.edit("PyTorchJob", "one", lambda body: body["metadata"].pop("annotations"))
            assert await world.running("one") == "cfa"


async def test_holding_a_job_that_runs_stops_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(active=False))
        await settle()
        assert world.state("one") == "Running"


async def test_a_priority_that_a_person_gives_a_waiting_unit_counts_and_stays() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("zero"))
        await world.running("zero")
        await world.apply(pytorchjob("first"))
        await eventually(lambda: world.unit("first"))
        await world.apply(pytorchjob("one"))
        await eventually(lambda: world.unit("one"))
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(priority=50))
        await world.edit("PyTorchJob", "one", lambda job: job["metadata"].update(labels={"seen": "again"}))
        await settle()
        assert (world.unit("one") or {})["spec"]["priority"] == 50
        world.members.finish("zero")
        await world.running("one")
        assert world.placed("first") == ""


async def test_a_job_that_runs_over_its_limit_is_ended_and_held_with_the_reason() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(maximumExecutionTimeSeconds=60))
        await settle(50)
        assert world.state("one") == "Running"
        await eventually(lambda: world.placed("one") == "", within_s=15)
        assert world.condition(world.unit("one"), "Evicted")["reason"] == "MaximumExecutionTimeExceeded"
        (event,) = world.events("one", "EvictWorkloadFromClusterSucceed")
        assert "limit of 60 s" in event["message"]
        await eventually(lambda: "held: it ran longer than its limit of 60 s" in world.message("one"))
        await settle(30)
        assert world.members.where("one") == []
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(active=True))
        await world.running("one")
        evicted = world.condition(world.unit("one"), "Evicted")
        assert (evicted["status"], evicted["message"]) == ("False", "Previously: it ran longer than its limit of 60 s")


async def test_a_job_that_ends_in_time_is_left_alone() -> None:
    async with hub(member("cfa", runtime_s=30.0)) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.unit("one"))
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(maximumExecutionTimeSeconds=60))
        await world.apply(tree(max_jobs=1))
        await eventually(lambda: world.phase("one") == "Succeed", within_s=60)
        await settle(90)
        assert world.phase("one") == "Succeed"
