"""Manifests that are too large for the decider are refused with the field, the number and the bound."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from api.engine.kind import Kind
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission.extents import pods_within_bounds
from fleet.admission.filling import filled
from fleet.admission.jobnames import fits_its_pods
from fleet.bindings.extent import LIMITS
from fleet.kinds import interpreter_of
from fleet.wellknown import POLICY
from tests.admission.conftest import USER, Body, Hub

WORKER = "spec.pytorchReplicaSpecs.Worker.template.spec"
AFFINITY = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PLACEMENT = "spec.placement"


def pod(name: str = "pytorch", **spec: Any) -> Body:
    return {"spec": {"containers": [{"name": name, "image": "i", "resources": {}}], **spec}}


def names(count: int) -> dict[str, str]:
    return {f"example.com/r{number}": "1" for number in range(count)}


def asking(requests: dict[str, str], limits: dict[str, str] | None = None) -> Body:
    made = pod()
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits or requests}
    return made


def job(worker: Body, master: Body | None = None) -> Body:
    types = {"Worker": {"replicas": 2, "template": worker}}
    if master is not None:
        types["Master"] = {"replicas": 1, "template": master}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": types},
    }


def affine(terms: int, expressions: int = 1, values: int = 1) -> Body:
    each = [
        {"key": f"k{number}", "operator": "In", "values": [f"v{value}" for value in range(values)]}
        for number in range(expressions)
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": copy.deepcopy(each)} for _ in range(terms)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def tolerating(count: int) -> list[Body]:
    return [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]


def of_kind(api_version: str, kind: str, spec: Body) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "j"}, "spec": spec}


def ray() -> Body:
    groups = [
        {"groupName": f"g{number}", "replicas": 1, "template": pod(tolerations=tolerating(22))} for number in "ab"
    ]
    cluster = {"headGroupSpec": {"template": pod("ray", tolerations=tolerating(22))}, "workerGroupSpecs": groups}
    return of_kind("ray.io/v1", "RayCluster", cluster)


def jobset(groups: int) -> Body:
    spec = {"parallelism": 1, "template": pod()}
    return of_kind(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {
            "replicatedJobs": [{"name": f"g{number}", "template": {"spec": spec}} for number in range(groups)],
        },
    )


JUST = [
    pytest.param(job(asking(names(64))), id="names"),
    pytest.param(job(asking(names(40)), asking({f"other.com/{n}": "1" for n in range(40)})), id="names of two pods"),
    pytest.param(job(pod(affinity=affine(64))), id="terms"),
    pytest.param(job(pod(affinity=affine(8, 32, 7))), id="expressions"),
    pytest.param(job(pod(tolerations=tolerating(32)), pod(tolerations=tolerating(32))), id="tolerations"),
    pytest.param(job(pod(nodeSelector={f"k{n}": "v" for n in range(256)})), id="selectors"),
]
BEYOND = [
    pytest.param(
        job(asking(names(65))), f"{WORKER}.containers", "65 names of resources in one pod, of at most 64", id="names"
    ),
    pytest.param(
        job(asking(names(40), {f"other.com/{n}": "1" for n in range(40)})),
        f"{WORKER}.containers",
        "80 names",
        id="names of requests and limits together",
    ),
    pytest.param(
        job(pod(affinity=affine(33)), pod(affinity=affine(32))),
        f"spec.pytorchReplicaSpecs.Worker.template.spec.{AFFINITY}",
        "65 terms",
        id="terms of two pods",
    ),
    pytest.param(
        job(pod(affinity=affine(8, 32), nodeSelector={"k": "v"})),
        f"{WORKER}.{AFFINITY}",
        "257 expressions and node selectors, of at most 256",
        id="expressions and node selectors",
    ),
    pytest.param(job(pod(affinity=affine(1, 2, 1001))), f"{WORKER}.{AFFINITY}", "2,002 values", id="values"),
    pytest.param(job(pod(tolerations=tolerating(65))), f"{WORKER}.tolerations", "65 tolerations", id="tolerations"),
    pytest.param(
        job(pod(tolerations=[{"key": "k" * 400, "operator": "Exists"}])),
        f"{WORKER}.tolerations",
        "400 characters in one name or value, of at most 317",
        id="a long key",
    ),
    pytest.param(
        job(asking({"example.com/" + "r" * 400: "1"})),
        f"{WORKER}.containers",
        "412 characters",
        id="a long name of a resource",
    ),
    pytest.param(
        of_kind("batch/v1", "Job", {"template": {"spec": {**asking(names(65))["spec"], "restartPolicy": "Never"}}}),
        "spec.template.spec.containers",
        "65 names",
        id="batch Job",
    ),
    pytest.param(
        of_kind(
            "apps/v1",
            "Deployment",
            {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, **pod(tolerations=tolerating(65))},
            },
        ),
        "spec.template.spec.tolerations",
        "65 tolerations",
        id="Deployment",
    ),
]


@pytest.mark.parametrize("body", JUST)
async def test_a_job_at_its_bounds_is_accepted(hub: Hub, body: Body) -> None:
    assert (await hub.create(body))["metadata"]["name"] == body["metadata"]["name"]


@pytest.mark.parametrize(("body", "field", "text"), BEYOND)
async def test_a_job_beyond_a_bound_is_refused_with_field_number_and_bound(
    hub: Hub, body: Body, field: str, text: str
) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422
    assert [cause for cause in refusal.causes if cause.field == field and text in cause.message], refusal.causes


async def test_a_job_that_was_stored_before_may_change_in_all_but_its_pods(hub: Hub) -> None:
    before = Objects(
        hub.store, hub.registry, hub.objects.clock, hub.objects.ids, fill=filled
    )  # a hub without the bounds
    kind = hub.registry.kind_of("kubeflow.org/v1", "PyTorchJob")
    assert kind is not None
    stored = (await before.create(kind, "default", job(asking(names(100))), USER)).body
    stored["metadata"]["labels"] = {"a": "b"}
    stored["spec"]["runPolicy"] = {"suspend": True}
    stored["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
    stored = await hub.update(stored)
    stored["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = asking(names(99))
    assert (await hub.refused(stored, "update")).code == 422


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(ray(), "66 tolerations", id="the groups of a RayCluster together"),
        pytest.param(jobset(65), "65 components", id="the jobs of a JobSet"),
    ],
)
def test_a_kind_of_nested_parts_is_counted_as_one_gang(body: Body, text: str) -> None:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    kind = Kind("", "v1", body["kind"], "things", "thing", True, "ThingList")
    review = Review("CREATE", kind, "", "default", "j", body, None, USER.user, dry_run=False)
    assert [text in cause.message for cause in pods_within_bounds(interpreter)(review)] == [True]


@pytest.mark.parametrize("name", ["gpu group", "视觉", "x" * 64])
def test_a_component_whose_name_no_label_can_have_is_refused(name: str) -> None:
    body = ray()
    body["spec"]["workerGroupSpecs"] = [{"groupName": name, "replicas": 1, "template": pod()}]
    interpreter = interpreter_of("ray.io/v1", "RayCluster")
    assert interpreter is not None
    kind = Kind("ray.io", "v1", "RayCluster", "rayclusters", "raycluster", True, "RayClusterList")
    review = Review("CREATE", kind, "", "default", "j", body, None, USER.user, dry_run=False)
    (cause,) = fits_its_pods(interpreter)(review)
    assert cause.field == "spec.workerGroupSpecs[0].template" and "the label of its pods is made of it" in cause.message


def policy(placement: Body, selectors: int = 1, name: str = "p") -> Body:
    jobs = [
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": f"j{number}"} for number in range(selectors)
    ]
    scheduling = {"customSchedulingType": "Gang", **placement.pop("replicaScheduling", {})}
    return {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": jobs, "placement": {"replicaScheduling": scheduling, **placement}},
    }


WEIGHTS = [{"targetCluster": {"clusterNames": [f"m{number}"]}, "weight": 1} for number in range(257)]
OF_POLICIES = [
    pytest.param(
        policy({"clusterTolerations": tolerating(65)}),
        f"{PLACEMENT}.clusterTolerations",
        "65 tolerations",
        id="tolerations",
    ),
    pytest.param(
        policy({"clusterAffinities": [{"affinityName": f"a{n}"} for n in range(65)]}),
        f"{PLACEMENT}.clusterAffinities",
        "65 terms",
        id="affinities",
    ),
    pytest.param(
        policy({"clusterAffinity": {"labelSelector": {"matchLabels": {f"k{n}": "v" for n in range(257)}}}}),
        f"{PLACEMENT}.clusterAffinity",
        "257 expressions",
        id="labels",
    ),
    pytest.param(
        policy({"clusterAffinity": {"clusterNames": [f"m{n}" for n in range(2001)]}}),
        f"{PLACEMENT}.clusterAffinity",
        "2,001 values",
        id="names of members",
    ),
    pytest.param(
        policy({"replicaScheduling": {"weightPreference": {"staticWeightList": WEIGHTS}}}),
        f"{PLACEMENT}.replicaScheduling.weightPreference.staticWeightList",
        "257 weights",
        id="weights",
    ),
    pytest.param(policy({}, selectors=1001), "spec.resourceSelectors", "1,001 selectors", id="selectors"),
]


@pytest.mark.parametrize(("body", "field", "text"), OF_POLICIES)
async def test_a_policy_beyond_a_bound_is_refused_with_field_number_and_bound(
    hub: Hub, body: Body, field: str, text: str
) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422
    assert [cause for cause in refusal.causes if cause.field == field and text in cause.message], refusal.causes


def test_the_bounds_are_those_of_the_page() -> None:
    assert (LIMITS.resources, LIMITS.terms, LIMITS.expressions, LIMITS.values, LIMITS.tolerations) == (
        64,
        64,
        256,
        2_000,
        64,
    )
