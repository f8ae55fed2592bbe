"""A world of good objects, and objects that are written into its store around admission."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from typing import Any

from fleet.values.ports import Body, Key, Put
from tests.controllers.world import World, policy, pytorchjob, tree

KINDS = (
    "PyTorchJob",
    "ResourceBinding",
    "QueueUnit",
    "Queue",
    "PropagationPolicy",
    "OverridePolicy",
    "Cluster",
    "ConfigMap",
    "PriorityClass",
    "Event",
    "Namespace",
    "CustomResourceDefinition",
)
AT_ONCE = 40
SAMPLE = int(os.environ.get("FLEET_MUTANTS", "120"))  # of a kind; of more a sample, always the same


def kind_of(world: World, body: Body) -> Any:
    return next(k for k in world.registry if k.kind == body["kind"])


async def write(world: World, body: Body) -> Key:
    """Into the store, around admission and the engine."""
    kind = kind_of(world, body)
    meta = body["metadata"]
    key = Key(kind.group, kind.resource, meta.get("namespace", ""), meta["name"])
    await world.store.commit([Put(key, body)])
    return key


def renamed(body: Body, name: str, number: int) -> Body:
    """A copy that is another object, of a job of its own."""
    new = copy.deepcopy(body)
    meta = new["metadata"]
    meta["name"] = meta["name"].replace("good", name) if "good" in meta["name"] else f"{meta['name']}-{name}"
    meta["uid"] = f"11111111-0000-4000-8000-{number:012d}"
    spec = new.get("spec")
    resource = spec.get("resource") if isinstance(spec, dict) else None
    if isinstance(resource, dict):
        resource["name"] = name
        resource["uid"] = f"22222222-0000-4000-8000-{number:012d}"
    return new


def batches(entries: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(entries), AT_ONCE):
        yield entries[start : start + AT_ONCE]


def sample(entries: list[Any]) -> list[Any]:
    return entries if len(entries) <= SAMPLE else random.Random(9).sample(entries, SAMPLE)


async def good_world(world: World) -> None:
    """A quota tree, policies with and without a queue, one job of each that runs."""
    await world.apply(tree(max_jobs=100), policy(queue=True))
    await world.apply(policy("outside", namespace="team-b", propagateDeps=True))
    await world.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good", "namespace": "default"}, "data": {}},
        {
            "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
            "kind": "OverridePolicy",
            "metadata": {"name": "good", "namespace": "kube-system"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "nobody"}],
                "overrideRules": [
                    {"overriders": {"plaintext": [{"path": "/metadata/annotations/x", "operator": "add", "value": ""}]}}
                ],
            },
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "good"},
            "value": 3,
            "globalDefault": False,
        },
    )
    await world.apply(pytorchjob("good"), pytorchjob("good", namespace="team-b"))
    await world.running("good")
