"""Draining a member: the order, the pace, the jobs that stay, and the state of it on the Cluster."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.draining import drain_of, drain_taint
from fleet.core.model.member import Taint
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

CORDON = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
GANG = {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}


async def taint(world: World, name: str, *taints: dict[str, str]) -> None:
    """On the Cluster, and so in what its member shows to the decider."""
    world.members.by_name[name].taints = tuple(Taint(t["key"], t.get("value", ""), t["effect"]) for t in taints)
    await world.edit("Cluster", name, lambda body: body["spec"].update(taints=list(taints)))


def draining(world: World, name: str = "cfa") -> Body:
    return world.condition(world.see("Cluster", name), "Draining")


async def running(world: World, *names: str, **metadata: dict[str, dict[str, str]]) -> None:
    """Jobs in cfa, each submitted a second after the one before."""
    for name in names:
        job = pytorchjob(name, workers=0)
        job["metadata"].update(metadata.get(name, {}))
        await world.apply(job)
        assert await world.running(name) == "cfa"
        await settle(1)


def left(world: World) -> list[str]:
    """The jobs that were evicted, in that order."""
    told = sorted(world.store.scan("", "events"), key=lambda stored: stored.revision)
    evicted = [stored.body for stored in told if stored.body["reason"] == "EvictWorkloadFromClusterSucceed"]
    return [event["involvedObject"]["name"] for event in evicted]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("30-per-minute", (30, False)),
        ("30-per-minute-force", (30, True)),
        ("", (60, False)),
        ("0", (60, False)),
        ("9999-per-minute", (6000, False)),
        ("0-per-minute", (60, False)),
    ],
)
def test_a_drain_is_read_from_its_taint_whatever_a_person_wrote_there(value: str, read: tuple[int, bool]) -> None:
    drain = drain_of({"spec": {"taints": [{"key": "fleet.io/drain", "value": value, "effect": "NoExecute"}]}})
    assert drain is not None and (drain.per_minute, drain.force) == read


def test_a_cluster_without_that_taint_is_not_drained() -> None:
    assert drain_of({"spec": {"taints": [CORDON, {**drain_taint(5, force=False), "effect": "NoSchedule"}]}}) is None


async def test_the_lowest_priority_leaves_first_then_the_latest_in_the_queue_each_at_its_time() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await running(world, "old", "urgent", "new")
        await world.edit("QueueUnit", "urgent-pytorchjob-rb-qu", lambda unit: unit["spec"].update(priority=7))
        enqueued = (world.binding("old") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        at = world.clock.now()
        await taint(world, "cfa", CORDON, drain_taint(6, force=False))
        await eventually(lambda: len(left(world)) == 1)
        assert "2 to leave, 1 leaving; held up by default/new" in draining(world)["message"]
        assert (draining(world)["status"], draining(world)["reason"]) == ("True", "WaitsForWork")
        await eventually(lambda: len(left(world)) == 3, within_s=40)
        assert left(world) == ["new", "old", "urgent"]
        assert 20 <= world.clock.now() - at <= 23
        await eventually(lambda: draining(world)["status"] == "False")
        assert (draining(world)["reason"], draining(world)["message"]) == ("Drained", "no more jobs leave")
        assert (world.binding("old") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == enqueued
        assert world.condition(world.unit("old"), "Evicted")["reason"] == "MemberDrained"
        await settle(30)
        assert [world.placed(job) for job in ("old", "urgent", "new")] == ["", "", ""]
        await taint(world, "cfa")
        for job in ("old", "urgent", "new"):
            assert await world.running(job) == "cfa"
        assert draining(world) == {}


async def test_many_a_minute_leave_within_their_second() -> None:
    async with hub(member("cfa", count=3)) as world:
        await world.apply(tree(max_jobs=30), policy(queue=True))
        names = [f"job-{number:02}" for number in range(12)]
        await world.apply(*(pytorchjob(name, workers=0) for name in names))
        for name in names:
            await world.running(name)
        at = world.clock.now()
        await taint(world, "cfa", CORDON, drain_taint(600, force=False))
        await eventually(lambda: len(left(world)) == 12)
        assert 1 <= world.clock.now() - at <= 3


async def test_another_pace_counts_at_once() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await running(world, "a", "b", "c")
        await taint(world, "cfa", CORDON, drain_taint(1, force=False))
        await settle(30)
        assert left(world) == ["c"]
        await taint(world, "cfa", CORDON, drain_taint(30, force=False))
        at = world.clock.now()
        await eventually(lambda: len(left(world)) == 3)
        assert 2 <= world.clock.now() - at <= 6


async def test_a_drained_job_starts_in_another_member() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await world.apply(pytorchjob("one"))
        first = await world.running("one")
        (other,) = {"cfa", "cfb"} - {first}
        await taint(world, first, CORDON, drain_taint(60, force=False))
        await eventually(lambda: world.placed("one") == other)
        assert await world.running("one") == other
        await eventually(lambda: world.members.where("one") == [other])


async def test_a_job_that_may_not_be_evicted_is_named_and_stays_until_it_is_forced() -> None:
    label = {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}}
    promised = tree(max_jobs=10)  # jobs that are not preemptible start within `min` only
    promised["spec"]["root"]["children"][0]["min"] = promised["spec"]["root"]["children"][0]["max"]
    async with hub(member("cfa")) as world:
        await world.apply(promised, policy(queue=True))
        await running(world, "fixed", "other", fixed=label)
        await taint(world, "cfa", CORDON, drain_taint(60, force=False))
        await eventually(lambda: draining(world).get("status") == "False")
        assert left(world) == ["other"] and world.placed("fixed") == "cfa"
        assert draining(world)["message"] == "no more jobs leave; 1 stays: default/fixed (it is not preemptible)"
        assert (draining(world)["status"], draining(world)["reason"]) == ("False", "JobsStay")
        await taint(world, "cfa", CORDON, drain_taint(60, force=True))
        await eventually(lambda: left(world) == ["other", "fixed"])
        await eventually(lambda: draining(world)["message"] == "no more jobs leave")


@pytest.mark.parametrize("part", ["application", "cluster"])
async def test_a_policy_that_says_never_keeps_its_jobs_there(part: str) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True, failover={part: {"purgeMode": "Never"}}))
        await running(world, "one")
        await taint(world, "cfa", CORDON, drain_taint(60, force=False))
        await eventually(lambda: draining(world).get("status") == "False")
        assert draining(world)["message"].endswith("1 stays: default/one (its policy says purgeMode Never)")
        assert world.placed("one") == "cfa"


async def test_a_policy_that_tolerates_everything_keeps_its_jobs_there_whatever_force_says() -> None:
    async with hub(member("cfa")) as world:
        placement: dict[str, Any] = {"replicaScheduling": GANG, "clusterTolerations": [{"operator": "Exists"}]}
        await world.apply(tree(max_jobs=10), policy(queue=True, placement=placement))
        await running(world, "one")
        await taint(world, "cfa", CORDON, drain_taint(60, force=True))
        await eventually(lambda: draining(world).get("status") == "False")
        assert draining(world)["message"].endswith("1 stays: default/one (its policy tolerates fleet.io/drain)")
        assert world.attempt("one") == 1


async def test_a_policy_that_tolerates_a_drain_for_a_while_has_its_jobs_leave_after_that() -> None:
    async with hub(member("cfa")) as world:
        for_a_while = {"key": "fleet.io/drain", "operator": "Exists", "tolerationSeconds": 100}
        placement: dict[str, Any] = {"replicaScheduling": GANG, "clusterTolerations": [for_a_while]}
        await world.apply(tree(max_jobs=10), policy(queue=True, placement=placement))
        await running(world, "one")
        at = world.clock.now()
        await taint(world, "cfa", CORDON, drain_taint(60, force=False))
        await eventually(lambda: not world.placed("one"), within_s=110)
        assert 99 <= world.clock.now() - at <= 103


async def test_nothing_leaves_a_member_that_does_not_answer_until_it_is_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await running(world, "one")
        world.members.set_down("cfa", True)
        await taint(world, "cfa", CORDON, drain_taint(60, force=False))
        await settle(20)
        assert world.placed("one") == "cfa"
        assert draining(world)["reason"] == "MemberUnreachable" and "does not answer" in draining(world)["message"]
        world.members.set_down("cfa", False)
        await eventually(lambda: left(world) == ["one"])


async def test_a_pod_that_does_not_go_is_named_as_what_holds_the_drain_up() -> None:
    async with hub(member("cfa", stuck=True)) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await running(world, "one")
        await taint(world, "cfa", CORDON, drain_taint(60, force=False))
        await eventually(lambda: "held up by default/one: " in draining(world).get("message", ""), within_s=400)
        assert "one-master-0" in draining(world)["message"] and draining(world)["status"] == "True"


async def test_a_job_that_is_over_and_an_object_without_pods_stay() -> None:
    async with hub(member("cfa")) as world:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        everywhere = policy(
            "c", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}], placement={}, failover=None
        )
        await world.apply(tree(max_jobs=10), policy(queue=True), everywhere, config)
        await running(world, "one")
        await eventually(lambda: len(world.members.owned("cfa")) == 2)
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await taint(world, "cfa", CORDON, drain_taint(60, force=True))
        await eventually(lambda: draining(world).get("status") == "False")
        await settle(10)
        assert (world.placed("one"), len(world.members.owned("cfa")), left(world)) == ("cfa", 2, [])


async def test_a_drain_goes_on_when_the_controllers_are_killed_and_started_again() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await running(world, "a", "b", "c")
        await taint(world, "cfa", CORDON, drain_taint(6, force=False))
        await eventually(lambda: len(left(world)) == 1)
        await world.kill()
        world.start()
        await eventually(lambda: draining(world).get("status") == "False", within_s=60)
        assert left(world) == ["c", "b", "a"]
