"""One object that cannot be handled costs itself alone (I13): good jobs beside it start, and no loop ends.

Every field of every kind that the loops read is taken away or given another type, in objects that are written into the
store around admission, many beside each other.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.values.ports import Body, Key, Put
from fleet.values.wellknown import HANDLING_FAILED
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree
from tests.security.loops.malformed import mutants

AT_ONCE = 40
SAMPLE = int(os.environ.get("FLEET_MUTANTS", "120"))  # of a kind; of more a sample, always the same
ANNOTATIONS = {
    "fleet.io/users": "5",
    "fleet.io/hold": "x",
    "fleet.io/attempt": "9" * 400,
    "fleet.io/retries": "[5, {}]",
    "fleet.io/backoff-limit": "-",
    "fleet.io/enqueued-at": "yesterday",
    "fleet.io/checkpoint-at": "9" * 30,
    "fleet.io/required-topology": "a b",
    "fleet.io/force-removal": "1",
    "fleet.io/potential-nodes": "{",
    "kube-queue/quota-fullname": "root/none",
    "kube-queue/max-depth": "9" * 400,
    "fleet.io/policy": "Foo x/y/z",
    "fleet.io/policy-generation": "x",
    "fleet.io/domain": "x",
}


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


def troubles(logs: list[Any]) -> list[Any]:
    return [e for e in logs if e["event"] in ("a source failed, listing again", "a loop ended and is started again")]


async def goes_on(world: World, logs: list[Any]) -> None:
    """Jobs that come now start, in a queue and outside, and no loop ended."""
    await world.apply(pytorchjob("later", workers=1), pytorchjob("later", workers=1, namespace="team-b"))
    await world.running("later")
    await eventually(lambda: ((world.binding("later", namespace="team-b") or {}).get("spec") or {}).get("clusters"))
    assert troubles(logs) == []
    faults = world.hub.metrics.registry.get_sample_value
    assert faults("fleet_decision_faults_total", {"outcome": "undecided"}) == 0
    assert not [e for e in logs if e["event"] == "deciding failed" and e["resort"] != "unread"]


def tells(world: World, key: Key) -> bool:
    stored = world.store.peek(key)
    if stored is None:
        return True
    said = f'"{HANDLING_FAILED}"'.encode() in stored.raw
    return said or any(
        e["reason"] == HANDLING_FAILED and e["involvedObject"].get("uid") == stored.uid for e in world.all("Event")
    )


def everybody_tells(world: World) -> None:
    """What some loop has set aside says so."""
    silent = {str(key) for loop in world.hub.metrics.loops for key in loop.aside if not tells(world, key)}
    assert not silent, silent


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


async def stands_beside(kind: str, only: list[tuple[str, Body]] | None = None) -> None:
    """Every mutant of the kind beside good ones."""
    world: World
    async with hub(member("cfa", count=40)) as world:
        await good_world(world)
        found = world.all(kind)
        if not found:
            return
        pattern = next((b for b in found if "good" in b["metadata"]["name"]), found[-1])
    annotated = copy.deepcopy(pattern)
    annotated["metadata"].setdefault("annotations", {})
    entries = list(mutants(pattern))
    for name, value in ANNOTATIONS.items():
        one = copy.deepcopy(annotated)
        one["metadata"]["annotations"][name] = value
        entries.append((f"annotation {name}", one))
    for batch in batches(sample(entries)):
        async with hub(member("cfa", count=40)) as world:
            await good_world(world)
            with capture_logs() as logs:
                for number, (_, body) in enumerate(batch):
                    await write(world, renamed(body, f"bad-{number}", number))
                try:
                    await goes_on(world, logs)
                    await settle(60)
                    everybody_tells(world)
                except AssertionError as error:
                    raise AssertionError(f"{error} beside {[what for what, _ in batch]}") from error


@pytest.mark.parametrize("kind", KINDS)
async def test_good_jobs_start_beside_malformed_objects(kind: str) -> None:
    await stands_beside(kind)
