"""Gangs that must lie close together, and members that could grow, from a job to what its member gets."""

from __future__ import annotations

from typing import Any

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Pool
from fleet.values.ports import Body
from fleet.wellknown import (
    ANNOTATION_DOMAIN,
    ANNOTATION_POTENTIAL,
    ANNOTATION_TOPOLOGY,
    ATTEMPT,
    KUEUE_GROUP,
    KUEUE_TOPOLOGY,
    LABEL_BINDING,
)
from tests.controllers.fakes import HOSTNAME
from tests.controllers.fastloop import eventually
from tests.controllers.world import GIB, World, cluster, hub, member, policy, pytorchjob


def close(body: Body, name: str = ANNOTATION_TOPOLOGY) -> Body:
    """All its pods on one host."""
    body["metadata"]["annotations"] = {name: HOSTNAME}
    return body


def affinity(world: World, job: str, member_: str) -> Any:
    sent = world.members.job(member_, "default", job)
    assert sent is not None
    return sent["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"]


async def test_a_gang_that_must_lie_together_goes_where_it_can() -> None:
    async with hub(member("cfa", 2, gpus=4), member("cfb", 1, gpus=8)) as world:
        await world.apply(policy(), close(pytorchjob("one", workers=1, gpus=4)))
        assert await world.running("one") == "cfb"
        binding = world.binding("one")
        assert binding is not None and binding["metadata"]["annotations"][ANNOTATION_DOMAIN] == "n0"
        sent = affinity(world, "one", "cfb")
        [together] = sent["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        uid = binding["metadata"]["uid"]
        assert together["topologyKey"] == HOSTNAME
        assert together["labelSelector"] == {"matchLabels": {LABEL_BINDING: uid, ATTEMPT: "1"}}
        [liked] = sent["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert liked["preference"]["matchExpressions"] == [{"key": HOSTNAME, "operator": "In", "values": ["n0"]}]


async def test_gangs_that_start_together_are_told_different_racks() -> None:
    async with hub(member("cfa", 2, gpus=8), start=False) as world:
        await world.apply(policy(), *(close(pytorchjob(name, workers=1, gpus=4)) for name in ("one", "two")))
        world.start()
        await world.running("one")
        await world.running("two")
        bindings = [world.binding(name) for name in ("one", "two")]
        told = {found["metadata"]["annotations"][ANNOTATION_DOMAIN] for found in bindings if found is not None}
        assert told == {"n0", "n1"}


async def test_kueues_annotations_on_pod_templates_of_one_group_say_the_same() -> None:
    async with hub(member("cfa", 2, gpus=4), member("cfb", 1, gpus=8)) as world:
        job = pytorchjob("one", workers=1, gpus=4)
        for spec in job["spec"]["pytorchReplicaSpecs"].values():
            spec["template"]["metadata"] = {"annotations": {KUEUE_TOPOLOGY: HOSTNAME, KUEUE_GROUP: "all"}}
        await world.apply(policy(), job)
        assert await world.running("one") == "cfb"


async def test_a_gang_too_large_for_every_rack_waits_and_says_so() -> None:
    async with hub(member("cfa", 4, gpus=4)) as world:
        await world.apply(policy(), close(pytorchjob("one", workers=1, gpus=4)))
        await eventually(lambda: world.condition(world.binding("one"), "Scheduled").get("reason") == "NoClusterFit")
        assert (
            "1 pod finds no node with 4 nvidia.com/gpu" in world.condition(world.binding("one"), "Scheduled")["message"]
        )


async def test_a_gang_waits_longer_for_nodes_where_an_autoscaler_adds_them() -> None:
    room = Amounts.of({"cpu": 96_000, "memory": 512 * GIB, "nvidia.com/gpu": 8, "pods": 110})
    config = ControllerConfig(gang_whole_s=5.0, nodes_added_s=40.0)
    more = (Pool(free=((room, 1),), allocatable=room),)
    async with hub(member("cfa", 1, gpus=4, potential=more), config=config) as world:
        await world.apply(cluster("cfa") | {"metadata": {"name": "cfa", "annotations": {ANNOTATION_POTENTIAL: "[]"}}})
        began = world.clock.now()
        await world.apply(policy(), pytorchjob("one", workers=1, gpus=4))
        await eventually(lambda: world.placed("one") == "cfa")
        await eventually(lambda: "GangNotWhole" in str(world.binding("one")), within_s=90.0)
        assert world.clock.now() - began >= 40
