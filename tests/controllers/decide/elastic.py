"""Elastic jobs, and how many workers they have."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from tests.controllers.world import World, pytorchjob

GPU = "nvidia.com/gpu"


def elastic(name: str, workers: int, least: int, **how: Any) -> Body:
    body = pytorchjob(name, workers=workers, **how)
    del body["spec"]["pytorchReplicaSpecs"]["Master"]
    body["spec"]["elasticPolicy"] = {"minReplicas": least, "maxReplicas": workers}
    return body


def has(world: World, name: str) -> tuple[int, int]:
    """The workers that it has, and that it asks for."""
    spec = (world.binding(name) or {})["spec"]
    count = {c["name"]: c["replicas"] for c in spec["components"]}["worker"]
    return count, {c["name"]: c["replicas"] for c in spec.get("wantedComponents") or spec["components"]}["worker"]


def sent(world: World, name: str) -> int:
    copy_ = world.members.job(world.placed(name), "default", name) or {}
    return int(copy_["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"])


def drop(world: World, name: str, *numbers: int, component: str = "worker") -> None:
    """The job's operator has taken away these pods."""
    pods = world.members.by_name["cfa"].pods
    names = {f"{name}-{component}-{number}" for number in numbers}
    for uid in [uid for uid, pod in pods.items() if pod.name in names]:
        del pods[uid]
    world.members._tell("cfa", "pod", world.members.job("cfa", "default", name) or {})
