"""The state of a job that moves: labels and variables of its next attempt, notice and grace before it leaves, and
finished work that the hub did not see."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.core.model.member import Taint
from fleet.values.ports import Body
from fleet.values.times import seconds
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

JOB_ID, PATH = "example.com/job-id", "example.com/path"
RULES = {
    "rules": [
        {"aliasLabelName": JOB_ID, "jsonPath": "{ .replicaStatuses.Master.selector }"},
        {"aliasLabelName": PATH, "jsonPath": "{.replicaStatuses.Worker.selector}"},
    ]
}


def failing_over(*, seconds: int = 0, **more: Any) -> Body:
    return {"application": {"decisionConditions": {"tolerationSeconds": seconds}, "purgeMode": "Directly", **more}}


def with_notice(body: Body, seconds: int) -> Body:
    body["metadata"]["annotations"] = {"fleet.io/eviction-notice-seconds": str(seconds)}
    return body


def tell(world: World, job: str, *, id: str, path: str) -> None:
    """The job's operator writes this into the status of its copy."""
    for where in world.members.where(job):
        found = world.members.job(where, "default", job)
        assert found is not None
        changed = copy.deepcopy(found)
        changed.setdefault("status", {})["replicaStatuses"] = {"Master": {"selector": id}, "Worker": {"selector": path}}
        one = world.members.by_name[where]
        one.objects[next(key for key, body in one.objects.items() if body is found)] = changed
        world.members._tell(where, "job", changed)


async def taint(world: World, name: str, *, off: bool = False) -> None:
    world.members.by_name[name].taints = () if off else (Taint("maintenance", "", "NoExecute"),)
    taints = [] if off else [{"key": "maintenance", "effect": "NoExecute"}]
    await world.edit("Cluster", name, lambda c: c["spec"].update(taints=taints))


def containers(body: Body) -> list[Body]:
    specs = body["spec"]["pytorchReplicaSpecs"].values()
    return [container for spec in specs for container in spec["template"]["spec"]["containers"]]


def variables(container: Body) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container.get("env", ())}


async def moved(world: World, job: str, first: str) -> Body:
    """The copy of its next attempt."""
    await eventually(lambda: world.placed(job) not in ("", first) and world.state(job) == "Running", within_s=90)
    found = world.members.job(world.placed(job), "default", job)
    assert found is not None
    return found


async def test_the_next_attempt_gets_the_state_of_the_last_as_labels_and_variables() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        rules = failing_over(statePreservation=RULES)
        await world.apply(tree(), policy(queue=True, failover=rules), pytorchjob("one"))
        first = await world.running("one")
        tell(world, "one", id="a-17", path="s3://bucket/run 4")
        await eventually(lambda: "a-17" in str((world.see("PyTorchJob", "one") or {}).get("status")))
        world.members.finish("one", "Failed")
        there = await moved(world, "one", first)
        assert there["metadata"]["labels"][JOB_ID] == "a-17"
        for spec in there["spec"]["pytorchReplicaSpecs"].values():
            assert spec["template"]["metadata"]["labels"][JOB_ID] == "a-17"
        for container in containers(there):
            assert variables(container) == {"FLEET_STATE_JOB_ID": "a-17", "FLEET_STATE_PATH": "s3://bucket/run 4"}
        assert PATH not in there["metadata"]["labels"]  # no label may have such a value
        assert there["metadata"]["annotations"][PATH] == "s3://bucket/run 4"
        told = world.events("one", "StateNotPreserved")
        assert [event["type"] for event in told] == ["Warning"]
        assert PATH in told[0]["message"]


async def test_a_state_stays_until_a_newer_one_takes_its_place_whatever_moves_the_job() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        rules = failing_over(statePreservation=RULES)
        await world.apply(policy(failover=rules), pytorchjob("one"))
        first = await world.running("one")
        tell(world, "one", id="a-17", path="x")
        await eventually(lambda: "a-17" in str((world.binding("one") or {})["status"]))
        await taint(world, first)
        second = await moved(world, "one", first)
        assert second["metadata"]["labels"][JOB_ID] == "a-17"
        await taint(world, first, off=True)
        there = world.placed("one")
        await taint(world, there)
        third = await moved(world, "one", there)
        assert third["metadata"]["labels"][JOB_ID] == "a-17"


async def test_a_job_without_the_state_says_so_and_moves_all_the_same() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        rules = failing_over(statePreservation=RULES)
        await world.apply(policy(failover=rules), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one", "Failed")
        there = await moved(world, "one", first)
        assert JOB_ID not in there["metadata"]["labels"]
        assert "leads to nothing" in world.events("one", "StateNotPreserved")[0]["message"]


async def test_a_running_job_is_told_before_it_is_deleted_and_keeps_its_quota_until_then() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), with_notice(pytorchjob("one"), 60))
        first = await world.running("one")
        began = world.clock.now()
        await taint(world, first)
        there = world.members.by_name[first]
        await eventually(lambda: len(there.told) == 3)
        at = there.told["one-worker-0"]["fleet.io/evict-at"]
        assert "maintenance" in str(there.told["one-worker-0"]["fleet.io/evict-reason"])
        found = world.members.job(first, "default", "one") or {}
        assert found["metadata"]["annotations"]["fleet.io/evict-at"] == at
        await world.apply(pytorchjob("two"))
        await settle(50)
        assert world.members.where("one") == [first]
        assert world.placed("two") == ""  # the quota of one job is still in use
        assert "it has notice until" in world.events("one", "EvictWorkloadFromClusterSucceed")[0]["message"]
        await moved(world, "one", first)
        assert 60 <= world.clock.now() - began <= 66


async def test_a_job_that_says_its_work_is_saved_leaves_before_its_notice_ends() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(), with_notice(pytorchjob("one"), 500))
        first = await world.running("one")
        began = world.clock.now()
        await taint(world, first)
        await eventually(lambda: len(world.members.by_name[first].told) == 3)
        found = world.members.job(first, "default", "one")
        assert found is not None
        saved = {"fleet.io/checkpoint-at": "2099-01-01T00:00:00Z"}
        await world.members.relabel(first, found, {}, saved)
        await moved(world, "one", first)
        assert world.clock.now() - began < 60


async def test_a_user_who_suspends_a_job_does_not_wait_for_its_notice() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), with_notice(pytorchjob("one"), 500))
        await world.running("one")
        await world.edit("PyTorchJob", "one", lambda body: body["spec"].update(runPolicy={"suspend": True}))
        await eventually(lambda: world.members.where("one") == [], within_s=10)


async def test_a_member_that_lets_nobody_patch_pods_still_gets_the_notice_on_the_job() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(), with_notice(pytorchjob("one"), 30))
        first = await world.running("one")
        world.members.by_name[first].pods_refused = "pods is forbidden"
        await taint(world, first)

        def told() -> bool:
            found = world.members.job(first, "default", "one") or {}
            return "fleet.io/evict-at" in ((found.get("metadata") or {}).get("annotations") or {})

        await eventually(told)
        await moved(world, "one", first)


async def test_a_graceful_purge_gives_the_pods_the_grace_of_the_policy() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        graceful = {"application": {"purgeMode": "Gracefully", "gracePeriodSeconds": 60}}
        await world.apply(policy(failover=graceful), pytorchjob("one"))
        first = await world.running("one")
        began = world.clock.now()
        await taint(world, first)
        await moved(world, "one", first)
        assert world.clock.now() - began >= 60  # one live copy: the next attempt waits for the end of the last
        graces = world.members.by_name[first].graces
        assert graces == {"one-master-0": 60, "one-worker-0": 60, "one-worker-1": 60}


async def test_a_job_that_succeeds_within_its_notice_is_finished() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), with_notice(pytorchjob("one"), 60))
        first = await world.running("one")
        await taint(world, first)
        await eventually(lambda: len(world.members.by_name[first].told) == 3)
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await settle(120)
        assert (world.state("one"), world.placed("one"), world.attempt("one")) == ("Succeeded", first, 1)
        assert world.members.where("one") == [first]


async def lost_and_placed_again(world: World) -> tuple[str, str]:
    """Its first member, which is cut off, and the one where its second copy runs."""
    tolerations = [{"key": "cluster.karmada.io/unreachable", "operator": "Exists", "tolerationSeconds": 20}]
    placement = {**policy()["spec"]["placement"], "clusterTolerations": tolerations}
    failover = {"cluster": {"purgeMode": "Directly"}}
    await world.apply(tree(), policy(queue=True, failover=failover, placement=placement), pytorchjob("one"))
    first = await world.running("one")
    world.members.set_down(first, True)
    await eventually(lambda: world.placed("one") not in ("", first), within_s=60)
    second = world.placed("one")
    await eventually(lambda: len(world.members.where("one")) == 2)
    await eventually(lambda: world.phase("one") == "Running")
    return first, second


def ends_unseen(world: World, name: str, outcome: str) -> None:
    """The copy in the member ends, and its pods with it."""
    one, found = world.members.by_name[name], world.members.job(name, "default", "one")
    assert found is not None
    one.pods = {uid: replace(pod, phase=outcome) for uid, pod in one.pods.items()}
    world.members._status(one, found, outcome)


async def test_work_that_a_lost_member_finished_is_believed_and_the_later_copy_stopped() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        first, _ = await lost_and_placed_again(world)
        ends_unseen(world, first, "Succeeded")
        await settle(5)
        assert world.phase("one") == "Running"
        world.members.set_down(first, False)
        await eventually(lambda: world.phase("one") == "Succeed")
        await eventually(lambda: world.members.where("one") == [first])
        await settle(90)
        assert (world.state("one"), world.placed("one")) == ("Succeeded", first)
        assert not (world.binding("one") or {})["spec"].get("gracefulEvictionTasks")
        assert first in world.events("one", "FinishedWorkFound")[0]["message"]
        await world.apply(pytorchjob("two"))  # the quota is free
        await eventually(lambda: world.placed("two") != "")
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.members.where("one") == [] and world.binding("one") is None)


async def test_of_two_copies_the_older_goes_first_when_its_member_is_back() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        first, second = await lost_and_placed_again(world)
        world.members.set_down(first, False)
        await eventually(lambda: world.members.where("one") == [second])
        await settle(60)
        assert (world.members.where("one"), world.state("one")) == ([second], "Running")


async def test_an_older_copy_that_failed_counts_for_nothing() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        first, second = await lost_and_placed_again(world)
        ends_unseen(world, first, "Failed")
        world.members.set_down(first, False)
        await eventually(lambda: world.members.where("one") == [second])
        assert world.state("one") == "Running"


async def test_the_time_that_an_eviction_takes_counts_in_the_cost_of_its_victim() -> None:
    async with hub(member("cfa")) as world:
        graceful = {"application": {"purgeMode": "Gracefully", "gracePeriodSeconds": 20}}
        job = with_notice(pytorchjob("one"), 40)
        job["metadata"]["annotations"]["fleet.io/checkpoint-at"] = "2025-06-15T16:00:00Z"
        await world.apply(policy(failover=graceful), job)
        await world.running("one")
        units = SnapshotBuilder(world.store, world.members).build(world.clock.now()).snapshot.units.values()
        assert [unit.checkpoint_at for unit in units] == [seconds("2025-06-15T16:00:00Z")]
        assert [unit.leaving_s for unit in units] == [60]


async def test_a_suspended_job_says_so_as_its_controller_would_until_it_is_resumed() -> None:
    """Tools wait for the condition (`kubectl wait --for=condition=Suspended`)."""

    async def suspend(yes: bool) -> None:
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": yes}))

    def suspended() -> tuple[str, str]:
        found = world.condition(world.see("PyTorchJob", "one"), "Suspended")
        return str(found.get("status", "")), str(found.get("reason", ""))

    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        assert suspended() == ("", "")
        await suspend(True)
        await eventually(lambda: world.members.where("one") == [] and world.state("one") == "Suspended")
        assert suspended() == ("True", "JobSuspended")
        await suspend(False)
        await world.running("one")
        assert suspended() == ("", "")
