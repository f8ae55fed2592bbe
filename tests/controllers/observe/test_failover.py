"""Jobs that fail, members that are lost or go: what moves, what waits, and what stays."""

from __future__ import annotations

from importlib.resources import files

import pytest
import yaml

from fleet.bindings.conditions import condition
from fleet.kinds import INTERPRETERS
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


async def test_a_job_that_fails_moves_to_another_member_after_tolerance_and_keeps_its_place() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        enqueued = (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        failed_at = world.clock.now()
        world.members.finish("one", "Failed")
        await eventually(lambda: world.phase("one") == "Failed")
        await eventually(lambda: world.placed("one") not in ("", first), within_s=60)
        assert 29 <= world.clock.now() - failed_at <= 40
        other = await world.running("one")
        assert {first, other} == {"cfa", "cfb"}
        assert world.members.where("one") == [other]
        assert (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == enqueued
        assert world.phase("one") == "Running"
        assert first in world.events("one", "EvictWorkloadFromClusterSucceed")[0]["message"]


async def test_a_failed_job_without_failover_in_its_policy_stays_failed() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(failover=None), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one", "Failed")
        await settle(400)
        assert (world.state("one"), world.placed("one")) == ("Failed", first)


async def test_purge_mode_never_leaves_it_to_a_person() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Never"}}
        await world.apply(policy(failover=failover), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one", "Failed")
        await settle(60)
        assert (world.state("one"), world.placed("one")) == ("Failed", first)


async def test_a_job_that_always_fails_by_its_own_fault_stays_failed_after_three_moves() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}
        await world.apply(tree(), policy(queue=True, failover=failover), pytorchjob("one"))
        for number in range(1, 5):
            attempt = number
            await eventually(
                lambda: (
                    world.attempt("one") == attempt  # noqa: B023
                    and world.state("one") == "Running"
                ),
                within_s=60,
            )
            world.members.finish("one", "Failed")
        await eventually(lambda: "stays Failed" in world.message("one"))
        await settle(120)
        assert world.phase("one") == "Failed"
        assert world.attempt("one") == 4


async def test_a_job_that_stays_failed_says_after_how_many_moves() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "backoffLimit": 1}}
        await world.apply(tree(), policy(queue=True, failover=failover), pytorchjob("one"))
        await world.running("one")
        await fails(world, "one", 2)
        await eventually(lambda: world.message("one").endswith(" after 1 move: it stays Failed"))


async def test_a_failed_job_says_when_it_starts_anew() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 120}, "purgeMode": "Directly"}}
        await world.apply(tree(), policy(queue=True, failover=failover), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one", "Failed")
        await eventually(lambda: "starts anew" in world.message("one"))
        over = condition(world.binding("one") or {}, "Finished") or {}
        at = rfc3339((seconds(over["lastTransitionTime"]) or 0) + 120)
        assert world.message("one") == f"the job failed in member {first}; it starts anew, there or elsewhere, at {at}"
        await eventually(lambda: world.attempt("one") == 2, within_s=180)
        assert "starts anew" not in world.message("one")


@pytest.mark.parametrize("reason", ["", "NodeLost"])
async def test_a_job_that_its_kind_calls_final_stays_failed_at_once(reason: str) -> None:
    shipped = files("fleet.kinds").joinpath("declared", "pytorchjob.yaml").read_text()
    declaration: Body = yaml.safe_load(shipped)
    declaration["spec"]["retryable"] = '!status.conditions.exists(c, c.reason == "JobFailed")'
    try:
        async with hub(member("cfa"), member("cfb")) as world:
            failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}
            await world.apply(declaration, tree(), policy(queue=True, failover=failover), pytorchjob("one"))
            first = await world.running("one")
            world.members.finish("one", "Failed", reason=reason)
            await eventually(lambda: "is not to be tried again" in world.message("one"))
            await settle(60)
            assert (world.state("one"), world.placed("one"), world.attempt("one")) == ("Failed", first, 1)
            assert world.events("one", "EvictWorkloadFromClusterFailed")[0]["message"].startswith(
                f"the job failed in member {first}"
            )
    finally:
        INTERPRETERS.declare(())


async def test_failures_of_nodes_do_not_count_against_the_job() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}
        await world.apply(policy(failover=failover), pytorchjob("one"))
        for number in range(1, 6):
            attempt = number
            await eventually(
                lambda: (
                    world.attempt("one") == attempt  # noqa: B023
                    and world.state("one") == "Running"
                ),
                within_s=90,
            )
            world.members.finish("one", "Failed", reason="NodeLost")
        await eventually(lambda: world.attempt("one") == 6, within_s=90)


async def test_a_member_that_is_cut_off_keeps_its_job_which_says_so() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        world.members.set_down(first, True)
        await eventually(lambda: "cannot be reached" in world.message("one"), within_s=30)
        await settle(1000)
        assert world.placed("one") == first
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "at most 1 job" in world.message("two"))  # it is still charged
        world.members.set_down(first, False)
        await eventually(lambda: world.message("one") == "")
        assert world.condition(world.binding("one"), "MemberReachable") == {}


async def test_a_policy_that_opts_in_gets_a_second_copy_and_loses_the_first_when_the_member_is_back() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        tolerations = [
            {
                "key": "cluster.karmada.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            }
        ]
        placement = {**policy()["spec"]["placement"], "clusterTolerations": tolerations}
        failover = {"cluster": {"purgeMode": "Directly"}}
        await world.apply(policy(failover=failover, placement=placement), pytorchjob("one"))
        first = await world.running("one")
        world.members.set_down(first, True)
        await settle(55)
        assert world.placed("one") == first
        await eventually(lambda: world.placed("one") not in ("", first), within_s=20)
        await eventually(lambda: len(world.members.where("one")) == 2)
        world.members.set_down(first, False)
        await eventually(lambda: world.members.where("one") == [world.placed("one")])
        await settle()
        assert world.members.where("one") == [world.placed("one")]


async def test_a_member_being_removed_gives_its_jobs_to_others() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(max_jobs=2), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        await world.edit("Cluster", first, lambda c: c["metadata"].update(finalizers=["fleet.io/cluster"]))
        await world.delete("Cluster", first)
        await eventually(lambda: world.placed("one") not in ("", first))
        other = await world.running("one")
        assert world.members.where("one") == [other]


async def test_a_member_that_succeeds_while_cut_off_is_believed_when_it_is_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        world.members.finish("one")
        await settle(30)
        assert world.phase("one") == "Running"
        world.members.set_down("cfa", False)
        await eventually(lambda: world.phase("one") == "Succeed")


async def test_a_job_that_has_succeeded_does_not_run_again_when_its_policy_excludes_its_member() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        placement = {**policy()["spec"]["placement"], "clusterAffinity": {"exclude": [first]}}
        await world.apply(policy(queue=True, placement=placement))
        await settle(60)
        assert (world.state("one"), world.placed("one"), world.attempt("one")) == ("Succeeded", first, 1)


async def test_a_job_that_has_succeeded_leaves_a_member_that_goes_and_stays_over() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await world.edit("Cluster", first, lambda c: c["metadata"].update(finalizers=["fleet.io/cluster"]))
        await world.delete("Cluster", first)
        await eventually(lambda: world.members.where("one") == [])
        await settle(60)
        assert (world.state("one"), world.phase("one"), world.attempt("one")) == ("Succeeded", "Succeed", 1)


async def fails(world: World, job: str, times: int, reason: str = "") -> None:
    """The job fails so often, each time once it runs."""
    for number in range(world.attempt(job), world.attempt(job) + times):
        await eventually(
            lambda: world.attempt(job) == number and world.state(job) == "Running",  # noqa: B023
            within_s=400,
        )
        world.members.finish(job, "Failed", reason=reason)


async def test_a_policy_limits_the_moves_after_failures_of_the_job_and_of_nodes_apart() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        limits = {"backoffLimit": 1, "infrastructureBackoffLimit": 2}
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, **limits}}
        await world.apply(tree(), policy(queue=True, failover=failover), pytorchjob("one"))
        await world.running("one")
        await fails(world, "one", 2, "NodeLost")
        await eventually(lambda: world.attempt("one") == 3 and world.state("one") == "Running", within_s=60)
        await fails(world, "one", 1)  # its own fault: one move is left
        await eventually(lambda: world.attempt("one") == 4 and world.state("one") == "Running", within_s=60)
        await fails(world, "one", 1, "NodeLost")
        await eventually(lambda: "stays Failed" in world.message("one"))
        assert "by the infrastructure (one-master-0: NodeLost) after 2 moves" in world.message("one")
        over = world.condition(world.binding("one"), "Finished")
        assert (over["reason"], over["message"]) == ("Failed", world.message("one"))
        assert world.events("one", "EvictWorkloadFromClusterFailed")[0]["type"] == "Warning"
        await settle(400)
        assert (world.attempt("one"), world.phase("one")) == (4, "Failed")


async def test_a_policy_says_how_long_a_failed_job_backs_off() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "backoffSeconds": 40}}
        await world.apply(tree(), policy(queue=True, failover=failover), pytorchjob("one"))
        await world.running("one")
        for number, pause in ((1, 40), (2, 80)):
            await fails(world, "one", 1)
            began, attempt = world.clock.now(), number + 1
            await eventually(lambda: world.attempt("one") == attempt, within_s=200)  # noqa: B023
            assert pause <= world.clock.now() - began <= pause + 5


async def test_a_node_that_dies_under_a_gang_is_not_the_fault_of_the_job_although_its_programs_fail() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        failover = {"application": {"decisionConditions": {"tolerationSeconds": 60}, "backoffLimit": 0}}
        await world.apply(policy(failover=failover), pytorchjob("one"))
        first = await world.running("one")
        world.members.by_name[first].broken = {"n0"}
        world.members.finish("one", "Failed")
        await settle(20)
        world.members.by_name[first].broken = set()  # what counts is how it was when the job failed
        world.members.by_name[first].pods.clear()
        await eventually(lambda: world.placed("one") not in ("", first), within_s=90)
        assert "node n0 is not ready or gone" in world.events("one", "EvictWorkloadFromClusterSucceed")[0]["message"]
