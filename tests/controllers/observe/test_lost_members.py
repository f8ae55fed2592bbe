"""Lost members, standby members and failing nodes: the pace of what leaves, and the order of what is used."""

from __future__ import annotations

from typing import Any

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

OPTED_IN = {"cluster": {"purgeMode": "Directly", "tolerationSeconds": 20}}
MOVES = {"application": {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}}


async def only_in(world: World, name: str, *jobs: str, failover: Any) -> None:
    """Start the jobs in this member; afterwards they may go anywhere."""
    there = {**policy()["spec"]["placement"], "clusterAffinity": {"clusterNames": [name]}}
    await world.apply(policy(failover=failover, placement=there), *map(pytorchjob, jobs))
    for job in jobs:
        await world.running(job)
    await world.apply(policy(failover=failover))
    await settle(1)


async def test_jobs_leave_a_lost_member_one_after_the_other() -> None:
    config = ControllerConfig(lost_evictions_per_minute=6)
    async with hub(member("cfa"), member("cfb"), config=config) as world:
        await only_in(world, "cfa", "one", "two", "three", failover=OPTED_IN)
        world.members.set_down("cfa", True)
        await settle(25)
        moved: list[int] = []
        for _ in range(3):
            moved.append(sum(1 for job in ("one", "two", "three") if world.placed(job) != "cfa"))
            await settle(10)
        assert moved == [1, 2, 3]


async def test_nothing_leaves_while_no_member_answers() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await only_in(world, "cfa", "one", failover=OPTED_IN)
        for name in ("cfa", "cfb"):
            world.members.set_down(name, True)
        await settle(100)
        assert world.placed("one") == "cfa"
        world.members.set_down("cfb", False)
        await eventually(lambda: world.placed("one") == "cfb", within_s=30)


async def test_a_standby_member_is_used_when_no_other_has_room_unless_the_policy_tolerates_its_taint() -> None:
    async with hub(member("cfa", count=1), member("cfb", count=1)) as world:
        taint = {"key": "standby", "effect": "PreferNoSchedule"}
        await world.edit("Cluster", "cfa", lambda c: c["spec"].update(taints=[taint]))
        await world.apply(policy(), pytorchjob("one", gpus=2))
        assert await world.running("one") == "cfb"
        await world.apply(pytorchjob("two", gpus=2))
        assert await world.running("two") == "cfa"
    async with hub(member("cfa", count=1), member("cfb", count=1)) as world:
        await world.edit("Cluster", "cfa", lambda c: c["spec"].update(taints=[taint]))
        tolerant = {**policy()["spec"]["placement"], "clusterTolerations": [{"key": "standby", "operator": "Exists"}]}
        await world.apply(policy(placement=tolerant), pytorchjob("one", gpus=2))
        assert await world.running("one") == "cfa"


async def test_a_standby_member_that_becomes_ordinary_is_used_as_the_others() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        taint = {"key": "standby", "effect": "PreferNoSchedule"}
        await world.edit("Cluster", "cfa", lambda c: c["spec"].update(taints=[taint]))
        await world.apply(policy(), pytorchjob("one"))
        assert await world.running("one") == "cfb"
        await world.edit("Cluster", "cfa", lambda c: c["spec"].update(taints=[]))
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        await world.apply(pytorchjob("two"))
        assert await world.running("two") == "cfa"


def fail_by_node(world: World, job: str) -> None:
    """The pods of the job on node n0 fail with the node's device plugin."""
    world.members.finish(job, "Failed", reason="UnexpectedAdmissionError")


def terms(copy: Body) -> list[Body]:
    template = copy["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    affinity = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(affinity["nodeSelectorTerms"])


async def test_a_node_where_several_jobs_failed_is_avoided_and_named_for_a_time() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(failover=MOVES))
        for job in ("one", "two", "three"):
            await world.apply(pytorchjob(job, workers=0))
            await world.running(job)
            fail_by_node(world, job)
            await eventually(lambda: world.attempt(job) == 2)  # noqa: B023

        def told() -> Body:
            return world.condition(world.see("Cluster", "cfa", ""), "NodesAvoided")

        await eventually(lambda: told().get("status") == "True")
        assert "node n0: 3 failures of 3 jobs" in told()["message"]
        assert world.members.by_name["cfa"].avoided == {"n0"}
        assert len(world.events("cfa", "NodeAvoided")) == 1
        for job in ("one", "two", "three"):  # the node stays suspect without them
            await world.delete("PyTorchJob", job)
        await world.apply(pytorchjob("four", workers=0))
        await world.running("four")
        there = world.members.job("cfa", "default", "four") or {}
        assert there["metadata"]["annotations"]["fleet.io/avoided-nodes"] == "n0"
        apart = {"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}
        assert terms(there) == [{"matchFields": [apart]}]
        applied = len(world.members.by_name["cfa"].applies)
        await settle(3700)
        assert told() == {}
        assert world.members.by_name["cfa"].avoided == frozenset()
        assert len(world.members.by_name["cfa"].applies) == applied  # what was sent stays as it is


async def test_one_job_alone_makes_no_node_suspect() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(failover=MOVES), pytorchjob("one", workers=0))
        for number in range(1, 5):
            await eventually(
                lambda: world.attempt("one") == number and world.state("one") == "Running",  # noqa: B023
                within_s=90,
            )
            fail_by_node(world, "one")
        await settle(60)
        assert world.condition(world.see("Cluster", "cfa", ""), "NodesAvoided") == {}
