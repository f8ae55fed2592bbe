"""From what a job says of where its pods stand to the rules of its binding, and to what its member gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fleet.bindings.rules import rules_of
from fleet.core.model.rule import PlacementRule
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_RULES, ANNOTATION_TOPOLOGY
from tests.controllers.fakes import HOSTNAME
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob

EXAMPLES = Path(__file__).parents[3] / "examples" / "placement"


def example(name: str) -> Body:
    body: Body = yaml.safe_load((EXAMPLES / name).read_text())
    return body


def marks_of(world: World, job: str, kind: str = "pytorchjob") -> dict[str, Any]:
    binding = world.binding(job, kind)
    found: dict[str, Any] = binding["metadata"]["annotations"] if binding is not None else {}
    return found


async def test_volcanos_walk_through_is_taken_and_its_binding_has_the_tiers() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(example("policy-volcano.yaml"), example("volcanojob-two-tiers.yaml"))
        await eventually(lambda: world.binding("two-tiers", "job") is not None)
        binding = world.binding("two-tiers", "job")
        assert binding is not None
        assert rules_of(binding) == (PlacementRule("tier-2"), PlacementRule("tier-1", hard=False))
        [component] = binding["spec"]["components"]
        assert (component["name"], component["replicas"]) == ("worker", 10), "the gang is whole"
        assert "minReplicas" not in component, "the job names no fewest pods of the task"


async def test_a_task_that_names_its_fewest_pods_is_elastic() -> None:
    job = example("volcanojob-two-tiers.yaml")
    job["spec"]["tasks"][0]["minAvailable"] = 6
    async with hub(member("cfa")) as world:
        await world.apply(example("policy-volcano.yaml"), job)
        await eventually(lambda: world.binding("two-tiers", "job") is not None)
        binding = world.binding("two-tiers", "job")
        assert binding is not None and binding["spec"]["components"][0]["minReplicas"] == 6


async def test_another_wish_changes_the_rules_of_a_job_that_waits() -> None:
    async with hub(member("cfa", 1, gpus=1)) as world:
        job = pytorchjob("one", workers=4, gpus=8)
        job["metadata"]["annotations"] = {"fleet.io/required-topology": "rack"}
        await world.apply(policy(), job)
        await eventually(lambda: marks_of(world, "one").get(ANNOTATION_TOPOLOGY) == "rack")
        job["metadata"]["annotations"] = {"fleet.io/slices": "rack=2@worker"}
        await world.apply(job)
        text = '[{"level":"rack","of":["worker"],"size":2}]'
        await eventually(lambda: marks_of(world, "one").get(ANNOTATION_RULES) == text)
        assert ANNOTATION_TOPOLOGY not in marks_of(world, "one")


async def test_a_preferred_level_is_a_preference_of_the_pods() -> None:
    async with hub(member("cfa", 1, gpus=8)) as world:
        job = pytorchjob("one", workers=1, gpus=4)
        job["metadata"]["annotations"] = {"fleet.io/preferred-topology": HOSTNAME}
        await world.apply(policy(), job)
        await world.running("one")
        sent = world.members.job("cfa", "default", "one")
        assert sent is not None
        affinity = sent["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"]
        [liked] = affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert list(affinity) == ["podAffinity"] and liked["podAffinityTerm"]["topologyKey"] == HOSTNAME


async def test_an_elastic_job_in_slices_keeps_its_range_in_whole_slices() -> None:
    job = example("volcanojob-two-tiers.yaml")
    job["metadata"]["annotations"] = {"fleet.io/slices": "rack=4"}
    job["spec"]["tasks"][0] |= {"replicas": 16, "minAvailable": 6}
    async with hub(member("cfa")) as world:
        await world.apply(example("policy-volcano.yaml"), job)
        await eventually(lambda: world.binding("two-tiers", "job") is not None)
        binding = world.binding("two-tiers", "job")
        assert binding is not None
        [component] = binding["spec"]["components"]
        assert (component["minReplicas"], component["replicaStep"], component["replicas"]) == (8, 4, 16)
