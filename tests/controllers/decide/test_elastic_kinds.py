"""Elastic jobs of the kinds that say their range otherwise than a PyTorchJob: each by its own field, over a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.kinds import interpreter_of
from fleet.values.ports import Body
from fleet.wellknown import KUBEFLOW, RESIZED
from tests.controllers.decide.elastic import GPU, drop
from tests.controllers.decide.reclaims import job, leaves, leaving
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, crd, member, policy, pytorchjob, tree
from tests.controllers.world import hub as running_hub
from tests.kinds.bodies import pods

MIN = "fleet.io/min-replicas"
KINDS = {
    "RayCluster": ("ray.io", "v1", "rayclusters", "g"),
    "VolcanoJob": ("batch.volcano.sh", "v1alpha1", "jobs", "w"),
    "Job": ("batch", "v1", "jobs", "main"),
    "Deployment": ("apps", "v1", "deployments", "main"),
}
QUICK = ControllerConfig(protection_s=30.0, claim_s=120.0)


@asynccontextmanager
async def hub_of(what: str, quota: Body, *members: FakeMember, **how: Any) -> AsyncIterator[World]:
    """A hub that knows the kind, and takes its jobs into queues."""
    group, version, plural, _ = KINDS[what]
    kind = what.removeprefix("Volcano")
    async with running_hub(*members, **how) as world:
        if group in ("ray.io", "batch.volcano.sh"):
            made = kind_of(crd(group, version, kind, plural), definitions())
            assert made is not None
            world.registry.put(made)
        taken = [
            {"apiVersion": f"{group}/{version}", "kind": kind},
            {"apiVersion": f"{KUBEFLOW}/v1", "kind": "PyTorchJob"},
        ]
        await world.apply(quota, policy(queue=True, resourceSelectors=taken))
        yield world


def elastic(what: str, replicas: int, least: int, gpus: int = 1, **labels: str) -> Body:
    """A job called one, of so many pods that it can be elastic in."""
    group, version, _, name = KINDS[what]
    template = pods(gpus, restartPolicy="Never") if what == "Job" else pods(gpus)
    template["metadata"] = {"labels": {"app": "one"}}
    meta: Body = {"name": "one", "namespace": "default", "labels": labels}
    if what == "RayCluster":
        sized = {"groupName": name, "replicas": replicas, "minReplicas": least, "maxReplicas": replicas}
        spec: Body = {"headGroupSpec": {"template": pods(0)}, "workerGroupSpecs": [{**sized, "template": template}]}
    elif what == "VolcanoJob":
        task = {"name": name, "replicas": replicas, "minAvailable": least, "template": template}
        spec = {"minAvailable": least, "tasks": [task]}
    else:
        meta["annotations"] = {MIN: str(least)}
        count = "parallelism" if what == "Job" else "replicas"
        spec = {count: replicas, "template": template}
        if what == "Deployment":
            spec["selector"] = {"matchLabels": {"app": "one"}}
    kind = what.removeprefix("Volcano")
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": meta, "spec": spec}


def has(world: World, what: str) -> tuple[int, int]:
    """The pods of the elastic component: as it is charged, and in the member's copy."""
    name, kind = KINDS[what][3], what.removeprefix("Volcano")
    binding = world.binding("one", kind.lower()) or {"spec": {}}
    charged = {part["name"]: part["replicas"] for part in binding["spec"].get("components") or ()}
    copy_ = world.members.job("cfa", "default", "one")
    interpreter = interpreter_of("/".join(KINDS[what][:2]), kind)
    assert interpreter is not None
    sent = {part.name: part.replicas for part in interpreter.components(copy_)} if copy_ is not None else {}
    return charged.get(name, 0), sent.get(name, 0)


@pytest.mark.parametrize("what", KINDS)
async def test_a_job_starts_with_what_there_is_and_grows_into_what_becomes_free(what: str) -> None:
    async with hub_of(what, tree(max_jobs=10), member("cfa", 1)) as world:
        await world.apply(pytorchjob("other", workers=0, gpus=4))
        await world.running("other")
        await world.apply(elastic(what, 8, 2))
        await eventually(lambda: has(world, what) == (4, 4), what="its least, and what is free beside it")
        unit = world.unit("one", what.removeprefix("Volcano").lower()) or {}
        assert unit["spec"]["resource"][GPU] == "4"
        await world.delete("PyTorchJob", "other")
        await eventually(lambda: has(world, what) == (8, 8))
        said = [event["message"] for event in world.events("one", RESIZED)]
        assert any(f"{KINDS[what][3]} 4 -> 8" in text for text in said)
        there = world.members.by_name["cfa"].pods
        await eventually(lambda: sum(pod.component == KINDS[what][3] for pod in there.values()) == 8)


@pytest.mark.parametrize("what", KINDS)
async def test_a_job_gives_up_as_many_replicas_as_it_must_before_it_is_evicted(what: str) -> None:
    label = {"quota.scheduling.alibabacloud.com/name": "a"}
    async with hub_of(what, leaves(16, a=0, b=16), member("cfa", 2), config=QUICK) as world:
        await world.apply(elastic(what, 8, 2, gpus=2, **label))
        await eventually(lambda: has(world, what) == (8, 8))
        await world.apply(job("owner", "b", workers=0, gpus=6))
        await eventually(lambda: has(world, what) == (5, 5), within_s=90.0, what="three of its pods have 6 GPUs")
        assert [e["message"] for e in world.events("one", RESIZED)][:1] == [
            f"is made smaller, to make room for default/owner: {KINDS[what][3]} 8 -> 5"
        ]
        drop(world, "one", 5, 6, 7, component=KINDS[what][3])
        await world.running("owner")
        assert not leaving(world) and has(world, what) == (5, 5)
        await settle(20)
        assert has(world, what) == (5, 5), "there is no room to grow into"


async def test_worker_groups_of_several_hosts_change_by_whole_replicas() -> None:
    async with hub_of("RayCluster", tree(max_jobs=10), member("cfa", 1)) as world:
        await world.apply(pytorchjob("other", workers=0, gpus=3))
        await world.running("other")
        body = elastic("RayCluster", 4, 1)
        body["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
        await world.apply(body)
        await eventually(lambda: has(world, "RayCluster") == (4, 4), what="there is room for five pods")
        assert (world.binding("one", "raycluster") or {})["spec"]["components"][1]["replicaStep"] == 2
        await settle(5)
        assert has(world, "RayCluster") == (4, 4)
        await world.delete("PyTorchJob", "other")
        await eventually(lambda: has(world, "RayCluster") == (8, 8))
        copy_ = world.members.job("cfa", "default", "one") or {}
        assert copy_["spec"]["workerGroupSpecs"][0]["replicas"] == 4


async def test_several_components_grow_one_after_the_other() -> None:
    async with hub_of("VolcanoJob", tree(max_jobs=10), member("cfa", 1)) as world:
        body = elastic("VolcanoJob", 6, 2)
        first = {"name": "f", "replicas": 4, "minAvailable": 1, "template": pods()}
        body["spec"] = {"tasks": [first, *body["spec"]["tasks"]]}
        await world.apply(body)
        await eventually(lambda: has(world, "VolcanoJob")[0] == 4, what="all of the first, and what is left")
        binding = world.binding("one", "job") or {}
        assert {part["name"]: part["replicas"] for part in binding["spec"]["components"]} == {"f": 4, "w": 4}
