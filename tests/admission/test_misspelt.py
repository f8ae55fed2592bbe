"""A name that nothing has is let pass with a warning that names the nearest one."""

from __future__ import annotations

import pytest

from tests.admission.conftest import USER, Body, Hub
from tests.admission.policies import JOBS, MAPS, gang, policy
from tests.admission.quota_trees import ROOT, leaf, manifest, tree
from tests.controllers.world import cluster


async def written(hub: Hub, body: Body) -> list[str]:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
    return list((await hub.objects.create(kind, namespace, body, USER)).warnings)


async def with_members(hub: Hub) -> None:
    for name in ("beijing-1", "hangzhou-1"):
        await hub.create(cluster(name))
        known = {"cpu": "8", "rdma/hca": "1"}
        await hub.made({**cluster(f"{name}-b"), "status": {"resourceSummary": {"allocatable": known}}})


def override(target: Body) -> Body:
    rule = {"targetCluster": target, "overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": "o"},
        "spec": {"resourceSelectors": [JOBS], "overrideRules": [rule]},
    }


WARNED = [
    pytest.param(
        policy(resourceSelectors=[MAPS, {"apiVersion": "v1", "kind": "ConfigMaps"}]),
        'spec.resourceSelectors[1].kind: the hub has no kind "v1 ConfigMaps", so this selects nothing;'
        ' did you mean "v1 ConfigMap"?',
        id="a kind",
    ),
    pytest.param(
        policy(resourceSelectors=[{**JOBS, "apiVersion": "kubeflow.org/v2"}], **gang()),
        'spec.resourceSelectors[0].apiVersion: PyTorchJob is stored as kubeflow.org/v1, so "kubeflow.org/v2" selects'
        " nothing",
        id="a version",
    ),
    pytest.param(
        policy(resourceSelectors=[JOBS], **gang(clusterAffinity={"clusterNames": ["beijing-1", "hangzou-1"]})),
        'spec.placement.clusterAffinity.clusterNames[1]: no member has the name "hangzou-1"; did you mean'
        ' "hangzhou-1"?',
        id="a member",
    ),
    pytest.param(
        policy(resourceSelectors=[JOBS], **gang(clusterAffinities=[{"affinityName": "a", "exclude": ["nowhere"]}])),
        'spec.placement.clusterAffinities[0].exclude[0]: no member has the name "nowhere"',
        id="nothing is near",
    ),
    pytest.param(
        policy(resourceSelectors=[JOBS], schedulePriority={"priorityClassName": "hihg"}, **gang()),
        "spec.schedulePriority.priorityClassName: the hub has no PriorityClass of this name",
        id="a PriorityClass",
    ),
    pytest.param(
        policy(
            resourceSelectors=[JOBS], propagateDeps=True, failover={"application": {"gracePeriodSeconds": 9}}, **gang()
        ),
        "spec.failover.application.gracePeriodSeconds: has no effect without purgeMode Gracefully",
        id="a grace",
    ),
    pytest.param(
        policy(
            resourceSelectors=[JOBS],
            placement={"replicaScheduling": {"replicaSchedulingType": "Duplicated", "customSchedulingType": "Gang"}},
        ),
        "spec.placement.replicaScheduling.replicaSchedulingType: Duplicated has no effect on jobs, each of which goes"
        " to one member, whole",
        id="copies of a job",
    ),
    pytest.param(
        override({"clusterNames": ["bejing-1"]}),
        'spec.overrideRules[0].targetCluster.clusterNames[0]: no member has the name "bejing-1"; did you mean'
        ' "beijing-1"?',
        id="an override's target",
    ),
    pytest.param(
        manifest(tree(leaf("a", max={"nvidia.com/gpus": 8}))),
        'spec.root.children[0].max[nvidia.com/gpus]: no member has the resource "nvidia.com/gpus"; did you mean'
        ' "nvidia.com/gpu"?',
        id="a resource",
    ),
    pytest.param(
        manifest(tree(leaf("a", "defualt"))),
        'spec.root.children[0].namespaces[0]: there is no namespace "defualt"; did you mean "default"?',
        id="a namespace",
    ),
]


@pytest.mark.parametrize(("body", "says"), WARNED)
async def test_what_nothing_is_called_is_warned_of(hub: Hub, body: Body, says: str) -> None:
    await with_members(hub)
    assert await written(hub, body) == [says]


@pytest.mark.parametrize(
    "body",
    [
        policy(resourceSelectors=[JOBS], **gang(clusterAffinity={"clusterNames": ["beijing-1"]})),
        manifest(tree(leaf("a", "default", max={"rdma/hca": 1, "hugepages-2Mi": 1, "kube-queue/max-jobs": 1}))),
    ],
    ids=["a policy", "a tree"],
)
async def test_what_is_there_is_not(hub: Hub, body: Body) -> None:
    await with_members(hub)
    assert await written(hub, body) == []


async def test_one_name_in_many_places_is_one_warning(hub: Hub) -> None:
    root = {**ROOT, "gpu": 8}
    assert len(await written(hub, manifest(tree(leaf("a", max={"gpu": 1}), min=root, max=root)))) == 1
