"""A tenant's override reaches what differs between clusters, and nothing by which it would reach further."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.matching import ClusterFields
from fleet.controllers.dispatch.manifests import dependency, manifest
from fleet.controllers.dispatch.outgoing import UnsafeManifest
from fleet.controllers.dispatch.overrides import BadOverride
from tests.admission.conftest import Body, Hub
from tests.controllers.fastloop import eventually
from tests.controllers.world import hub as running_hub
from tests.controllers.world import member, policy, pytorchjob

MEMBER = ClusterFields("cfa", {}, {})
WORKER = "/spec/pytorchReplicaSpecs/Worker/template"
CONTAINER = f"{WORKER}/spec/containers/0"


def override(overriders: Body, *, cluster_wide: bool = False) -> Body:
    metadata = {"name": "o"} if cluster_wide else {"name": "o", "namespace": "default"}
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "ClusterOverridePolicy" if cluster_wide else "OverridePolicy",
        "metadata": metadata,
        "spec": {"overrideRules": [{"overriders": overriders}]},
    }


def plain(path: str, value: Any = "x", operator: str = "replace") -> Body:
    return {"plaintext": [{"path": path, "operator": operator, "value": value}]}


def inside(path: str, sub_path: str = "/a", value: Any = "x") -> Body:
    return {
        "fieldOverrider": [{"fieldPath": path, "json": [{"subPath": sub_path, "operator": "replace", "value": value}]}]
    }


A_TENANTS = [
    inside(f"{CONTAINER}/env/0/value"),
    inside(f"{CONTAINER}/args/1"),
    inside(f"{WORKER}/metadata/annotations/net"),
    inside("/metadata/annotations/team"),
    plain(f"{CONTAINER}/image"),
    plain(f"{CONTAINER}/env/-", {"name": "A", "value": "1"}, "add"),
    plain(f"{CONTAINER}/args", ["--fast"]),
    plain(f"{CONTAINER}/command", ["python"]),
    plain(f"{WORKER}/spec/tolerations", [{"operator": "Exists"}], "add"),
    plain(f"{WORKER}/spec/nodeSelector/zone", "a", "add"),
    plain(f"{WORKER}/metadata/annotations/sidecar.istio.io~1inject", "false", "add"),
    plain("/metadata/labels/team", "x", "add"),
    plain("/metadata/annotations", {"team": "x"}, "add"),
    {"labelsOverrider": [{"operator": "add", "value": {"team": "x"}}]},
    {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "mirror.example"}]},
    {
        "imageOverrider": [
            {"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": f"{CONTAINER}/image"}}
        ]
    },
]
AN_ADMINISTRATORS = [
    inside("/data/settings.json"),
    inside(f"{WORKER}/spec/serviceAccountName"),
    inside("/metadata/annotations/kube-queue~1max-depth"),
    plain("/spec/pytorchReplicaSpecs/Worker/replicas", 24),
    plain(f"{CONTAINER}/resources/limits/nvidia.com~1gpu", 8),
    plain(f"{CONTAINER}/securityContext", {"privileged": True}, "add"),
    plain(f"{CONTAINER}/volumeMounts", [], "add"),
    plain(f"{WORKER}/spec/serviceAccountName", "root", "add"),
    plain(f"{WORKER}/spec/volumes", [{"name": "h", "hostPath": {"path": "/"}}], "add"),
    plain(f"{WORKER}/spec/hostNetwork", True, "add"),
    plain(f"{WORKER}/spec/containers/0", {"name": "x"}),
    plain(f"{WORKER}/spec/containers/-", {"name": "x"}, "add"),
    plain(f"{WORKER}/spec/priorityClassName", "system-node-critical", "add"),
    plain(f"{WORKER}/spec", {}),
    plain("/spec/runPolicy", {}, "add"),
    plain("/spec", {}),
    plain("/data/key", "x"),
    plain("/metadata/labels/quota.scheduling.alibabacloud.com~1name", "other", "add"),
    {"annotationsOverrider": [{"operator": "add", "value": {"kube-queue/max-depth": "1"}}]},
]
NOBODYS = [
    inside("/metadata/name"),
    inside("/kind"),
    inside("/metadata/annotations/fleet.io~1users", "/0"),
    inside("/metadata/finalizers/0"),
    plain("/metadata/namespace", "kube-system"),
    plain("/metadata/name", "other"),
    plain("/metadata", {"name": "other"}),
    plain("/metadata/ownerReferences", [], "add"),
    plain("/metadata/finalizers", ["x/y"], "add"),
    plain("/kind", "ClusterRoleBinding"),
    plain("/apiVersion", "rbac.authorization.k8s.io/v1"),
    plain("/status", {}, "add"),
    plain("", {}),
    plain("/metadata/labels/fleet.io~1hub", "other"),
    plain("/metadata/labels", {"fleet.io/binding": "x"}),
    {"labelsOverrider": [{"operator": "remove", "value": {"fleet.io/binding": ""}}]},
    {"annotationsOverrider": [{"operator": "add", "value": {"fleet.io/users": '["x"]'}}]},
    {
        "imageOverrider": [
            {"component": "Tag", "operator": "replace", "value": "x", "predicate": {"path": "/metadata/namespace"}}
        ]
    },
]


@pytest.mark.parametrize("overriders", A_TENANTS)
async def test_a_tenants_policy_may_say_what_differs_between_clusters(hub: Hub, overriders: Body) -> None:
    await hub.create(override(overriders))


@pytest.mark.parametrize("overriders", AN_ADMINISTRATORS)
async def test_what_else_there_is_takes_a_cluster_wide_policy(hub: Hub, overriders: Body) -> None:
    refusal = await hub.refused(override(overriders))
    assert refusal.code == 422 and refusal.causes[0].field.startswith("spec.overrideRules[0].overriders.")
    await hub.create(override(overriders, cluster_wide=True))


@pytest.mark.parametrize("overriders", NOBODYS)
@pytest.mark.parametrize("cluster_wide", [True, False], ids=["cluster", "tenant"])
async def test_nobodys_policy_changes_what_an_object_is(hub: Hub, overriders: Body, cluster_wide: bool) -> None:
    refusal = await hub.refused(override(overriders, cluster_wide=cluster_wide))
    assert refusal.code == 422 and any(".overriders." in cause.field for cause in refusal.causes)


# -- what was stored before the rule existed, or around it


def placed(job: Body, replicas: int = 2, gpus: str = "1") -> Body:
    asked = {"resourceRequest": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus}}
    return {
        "metadata": {
            "name": "one-pytorchjob",
            "namespace": "default",
            "uid": "b1",
            "annotations": {"fleet.io/attempt": "1"},
        },
        "spec": {
            "gang": True,
            "clusters": [{"name": "cfa"}],
            "resource": {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": "one", "namespace": "default"},
            "components": [
                {"name": "master", "replicas": 1, "replicaRequirements": asked},
                {"name": "worker", "replicas": replicas, "replicaRequirements": asked},
            ],
        },
    }


@pytest.mark.parametrize("overriders", [*AN_ADMINISTRATORS, *NOBODYS])
def test_a_stored_policy_of_a_tenant_is_told_instead_of_applied(overriders: Body) -> None:
    job = pytorchjob("one")
    with pytest.raises(BadOverride, match="override policy o: "):
        manifest(job, placed(job), "hub", MEMBER, [override(overriders)])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("/spec/pytorchReplicaSpecs/Worker/replicas", 24, "24 replicas of worker, 2 admitted"),
        (f"{CONTAINER}/resources/limits/nvidia.com~1gpu", "8", "worker asks for 8 nvidia.com/gpu a pod, 1 admitted"),
        (
            "/spec/pytorchReplicaSpecs/Evaluator",
            {"replicas": 1, "template": {"spec": {"containers": [{}]}}},
            "evaluator was not admitted",
        ),
    ],
)
def test_no_policy_makes_a_job_larger_than_it_is_charged(path: str, value: Any, said: str) -> None:
    job = pytorchjob("one")
    with pytest.raises(BadOverride, match=f"override policy o: .*{said}"):
        manifest(job, placed(job), "hub", MEMBER, [override(plain(path, value, "add"), cluster_wide=True)])


def test_a_job_that_grew_before_it_was_sent_is_sent_in_the_size_that_it_is_charged() -> None:
    sent = manifest(pytorchjob("one", workers=12), placed(pytorchjob("one")), "hub", MEMBER, [])
    assert sent["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
    larger = pytorchjob("one", gpus=8)
    with pytest.raises(UnsafeManifest, match="asks for more than it is charged"):
        manifest(larger, placed(pytorchjob("one")), "hub", MEMBER, [])


def test_what_a_user_wrote_under_the_hubs_keys_does_not_travel() -> None:
    keys = {"fleet.io/users": '["x"]', "fleet.io/hash": "y", "fleet.io/hold": "false"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a", "annotations": keys}}
    sent = dependency(secret, "hub", {"b1"}, MEMBER, [])
    assert sent["metadata"]["annotations"]["fleet.io/users"] == '["b1"]'
    job = pytorchjob("one")
    job["metadata"]["annotations"] = dict(keys)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"labels": {"fleet.io/binding": "other"}}
    sent = manifest(job, placed(job), "hub", MEMBER, [])
    assert "fleet.io/users" not in sent["metadata"]["annotations"]
    template = sent["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    assert template["metadata"]["labels"]["fleet.io/binding"] == "b1"


async def test_a_job_whose_override_is_refused_says_so_and_others_run() -> None:
    async with running_hub(member("cfa")) as world:
        world.members.by_name["cfa"].slow_s = 0.0
        bad = override(plain("/metadata/namespace", "kube-system"))
        bad["spec"]["resourceSelectors"] = [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "bad"}]
        await world.apply(bad, policy(), pytorchjob("bad"), pytorchjob("good"))
        await world.running("good")
        await eventually(lambda: world.events("bad", "SyncFailed"))
        assert (
            "plaintext[0].path: it would make another object of it" in world.events("bad", "SyncFailed")[0]["message"]
        )
        assert all(key.namespace == "default" for key in world.members.by_name["cfa"].objects)
