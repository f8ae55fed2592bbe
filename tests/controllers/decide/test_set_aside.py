"""Gangs that were stored before a bound came: those that wait are set aside, those that run stay charged."""

from __future__ import annotations

from typing import Any

from fleet.bindings.extent import excess_of, set_aside
from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


def large(name: str, names: int = 100, amount: str = "1", **how: Any) -> Body:
    """A job with made-up names of resources."""
    job = pytorchjob(name, **how)
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        asked = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
        asked.update({f"example.com/r{number}": amount for number in range(names)})
    return job


def affine(name: str, terms: int) -> Body:
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]} for n in range(terms)]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pytorchjob(name, affinity=affinity)


async def test_a_waiting_gang_beyond_a_bound_is_set_aside_and_others_start() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(
            tree(max_jobs=9), policy(queue=True), large("wide"), affine("choosy", 40), pytorchjob("plain")
        )
        await world.running("plain")
        await eventually(lambda: "103 names of resources in one pod, of at most 64" in told(world, "wide"))
        await eventually(lambda: "80 terms of required node affinity, of at most 64" in told(world, "choosy"))
        assert world.condition(world.binding("wide"), "Scheduled")["reason"] == "Held"
        assert world.message("wide").endswith("of at most 64: cancel it, and submit it again with fewer")
        assert ["of at most 64" in event["message"] for event in world.events("wide", "ScheduleBindingFailed")] == [
            True
        ]
        assert not world.placed("wide") and not world.placed("choosy")
        (part, _) = (world.unit("wide") or {})["spec"]["podSet"]
        assert len(part["requests"]) == 64
        waiting = SnapshotBuilder(world.store, world.members).build().waiting
        assert {unit.name: [set(group.members) for group in unit.affinity_groups] for unit in waiting} == {
            "default/wide": [set()],
            "default/choosy": [set()],
        }


async def test_a_policy_beyond_a_bound_holds_its_jobs_until_it_is_changed() -> None:
    async with hub(member("cfa")) as world:
        scheduling = policy()["spec"]["placement"]["replicaScheduling"]
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(65)]
        placement = {"replicaScheduling": scheduling, "clusterTolerations": tolerations}
        await world.apply(tree(max_jobs=9), policy(queue=True, placement=placement), pytorchjob("one"))
        said = (
            "the placement of its policy is too large to be decided, 65 tolerations, of at most 64: change the policy"
        )
        await eventually(lambda: told(world, "one") == f"held: {said}")
        await world.apply(policy(queue=True))
        await world.running("one")


def told(world: World, job: str) -> str:
    return str(world.condition(world.binding(job), "Scheduled").get("message", ""))


async def test_a_running_gang_beyond_a_bound_runs_on_and_stays_charged() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=9), policy(queue=True), pytorchjob("old", gpus=2))
        await world.running("old")
        await world.stop()
        binding = world.binding("old") or {}
        for component in binding["spec"]["components"]:  # as a release without the bounds placed it
            asked = component["replicaRequirements"]["resourceRequest"]
            asked.update({f"example.com/r{number}": "0" for number in range(100)})
        assert excess_of(binding) is not None
        unit = next(iter(SnapshotBuilder(world.store, world.members).build().snapshot.units.values()))
        charged = set_aside(binding)["spec"]["components"]
        assert [c["replicaRequirements"]["resourceRequest"]["nvidia.com/gpu"] for c in charged] == ["2", "2"]
        assert unit.total["nvidia.com/gpu"] == 6


def test_an_ordinary_binding_passes_no_bound() -> None:
    assert excess_of({"metadata": {"name": "b"}, "spec": {}}) is None
