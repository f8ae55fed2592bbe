"""Jobs: a gang has pods, and what they ask for can be read; every refusal names the field."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.kind import Kind
from api.objects.writing import Review
from fleet.admission.jobs import job as check_of_jobs
from fleet.kinds import interpreter_of
from tests.admission.conftest import USER, Body, Hub

TEMPLATE = "spec.pytorchReplicaSpecs.Worker.template.spec"


def pod(**resources: Any) -> Body:
    return {"spec": {"containers": [{"name": "pytorch", "image": "i", "resources": resources}]}}


def job(**worker: Any) -> Body:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": pod(), **worker}}},
    }


def bound(annotations: Body) -> Body:
    return {**job(), "metadata": {"name": "j", "annotations": annotations}}


def batchjob(least: str) -> Body:
    template = pod()
    template["spec"]["restartPolicy"] = "Never"
    meta = {"name": "j", "annotations": {"fleet.io/min-replicas": least}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"parallelism": 4, "template": template}}


REFUSED = [
    pytest.param(job(replicas=0), "spec.pytorchReplicaSpecs", id="no pods"),
    pytest.param({**job(), "spec": {"pytorchReplicaSpecs": {}}}, "spec.pytorchReplicaSpecs", id="no replica types"),
    pytest.param({**job(), "spec": {}}, "spec.pytorchReplicaSpecs", id="no map of them"),
    pytest.param(job(replicas=-1), "spec.pytorchReplicaSpecs.Worker.replicas", id="less than none"),
    pytest.param(job(replicas=10**7), "spec.pytorchReplicaSpecs.Worker.replicas", id="far too many"),
    pytest.param(job(replicas="two"), "spec.pytorchReplicaSpecs.Worker.replicas", id="a word"),
    pytest.param(job(template={"spec": {"containers": []}}), f"{TEMPLATE}.containers", id="no containers"),
    pytest.param(
        job(template=pod(limits={"nvidia.com/gpu": "one"})),
        f"{TEMPLATE}.containers[0].resources.limits[nvidia.com/gpu]",
        id="no quantity",
    ),
    pytest.param(
        job(template=pod(requests={"cpu": "-1"})),
        f"{TEMPLATE}.containers[0].resources.requests[cpu]",
        id="a negative quantity",
    ),
    pytest.param(
        job(template=pod(requests={"cpu": "1e999999999"})),
        f"{TEMPLATE}.containers[0].resources.requests[cpu]",
        id="an endless quantity",
    ),
    pytest.param(
        job(template=pod(requests={"cpu": 2}, limits={"cpu": "1500m"})),
        f"{TEMPLATE}.containers[0].resources.requests[cpu]",
        id="a request above its limit",
    ),
    pytest.param(bound({"fleet.io/hold": "yes"}), "metadata.annotations[fleet.io/hold]", id="held by a word"),
    pytest.param(
        bound({"fleet.io/checkpoint-at": "yesterday"}),
        "metadata.annotations[fleet.io/checkpoint-at]",
        id="saved at no time",
    ),
    pytest.param(
        bound({"fleet.io/force-delete-pods-after-seconds": "5m"}),
        "metadata.annotations[fleet.io/force-delete-pods-after-seconds]",
        id="forced after no number",
    ),
    pytest.param(
        {**job(), "metadata": {"name": "j", "labels": {"quota.scheduling.koordinator.sh/preemptible": "no"}}},
        "metadata.labels[quota.scheduling.koordinator.sh/preemptible]",
        id="preemptible or what",
    ),
    pytest.param(job(restartPolicy="Sometimes"), "spec.pytorchReplicaSpecs.Worker.restartPolicy", id="no such policy"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
async def test_a_job_that_can_never_start_is_refused(hub: Hub, body: Body, field: str) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422
    assert field in [cause.field for cause in refusal.causes], refusal.causes


async def test_an_unknown_field_of_a_pod_is_named(hub: Hub) -> None:
    wrong = pod()
    wrong["spec"]["nodeSelektor"] = {}
    refusal = await hub.refused(job(template=wrong))
    assert refusal.code == 400 and f'unknown field "{TEMPLATE}.nodeSelektor"' in refusal.message


async def test_a_job_keeps_everything_that_its_user_wrote(hub: Hub) -> None:
    template = pod(limits={"nvidia.com/gpu": 1, "cpu": 0.5, "memory": "1Gi"})
    template["metadata"] = {"annotations": {"a": "b"}, "creationTimestamp": None}
    template["spec"] |= {"nodeSelector": {"x": "y"}, "volumes": [{"name": "v", "emptyDir": {}}]}
    stored = await hub.create(job(template=template, restartPolicy="OnFailure"))
    kept = stored["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert kept["template"]["spec"] == template["spec"] and kept["restartPolicy"] == "OnFailure"
    assert kept["template"]["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"template": pod()}, "spec.template.spec.restartPolicy"),
        ({"template": {"spec": {**pod()["spec"], "restartPolicy": "Always"}}}, "spec.template.spec.restartPolicy"),
        ({"parallelism": 0, "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}, "spec.parallelism"),
    ],
)
async def test_a_batch_job_has_pods_that_end(hub: Hub, spec: Body, field: str) -> None:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b"}, "spec": spec}
    refusal = await hub.refused(body)
    assert refusal.code == 422 and [cause.field for cause in refusal.causes] == [field]


async def test_other_job_kinds_are_read_alike(hub: Hub) -> None:
    for kind, field, role in (("TFJob", "tfReplicaSpecs", "PS"), ("MPIJob", "mpiReplicaSpecs", "Launcher")):
        template = pod(limits={"cpu": "x"})
        template["spec"]["containers"][0]["name"] = "tensorflow"
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": {"name": "j"},
            "spec": {field: {role: {"replicas": 1, "template": template}}},
        }
        refusal = await hub.refused(body)
        where = f"spec.{field}.{role}.template.spec.containers[0].resources.limits[cpu]"
        assert refusal.code == 422 and refusal.causes[0].field == where


@pytest.mark.parametrize("text", ["many", "-1", "1.5", ""])
async def test_how_often_a_job_is_tried_is_a_number(hub: Hub, text: str) -> None:
    body = job()
    body["metadata"] = {"name": "j", "annotations": {"fleet.io/backoff-limit": text}}
    refusal = await hub.refused(body)
    assert [cause.field for cause in refusal.causes] == ["metadata.annotations[fleet.io/backoff-limit]"]


@pytest.mark.parametrize("text", ["all", "-1", "1.5", "0"])
async def test_the_fewest_replicas_of_a_job_are_a_number(hub: Hub, text: str) -> None:
    body = batchjob("2")
    assert (await hub.create(body))["metadata"]["name"] == "j"
    body["metadata"] = {"name": "k", "annotations": {"fleet.io/min-replicas": text}}
    refusal = await hub.refused(body)
    assert [cause.field for cause in refusal.causes] == ["metadata.annotations[fleet.io/min-replicas]"]
    assert "must be a whole number of replicas, at least 1" in refusal.causes[0].message


async def test_the_fewest_replicas_are_not_said_twice(hub: Hub) -> None:
    refusal = await hub.refused(bound({"fleet.io/min-replicas": "1"}))
    assert "a PyTorchJob does not take its fewest replicas from this annotation" in refusal.causes[0].message


def managed(by: str) -> Body:
    template = pod()
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "m"},
        "spec": {"managedBy": by, "template": template},
    }


async def test_a_job_that_nobody_would_run_is_refused_for_its_manager(hub: Hub) -> None:
    refusal = await hub.refused(managed("kueue.x-k8s.io/multikueue"))
    assert refusal.code == 422
    [cause] = refusal.causes
    assert cause.field == "spec.managedBy"
    assert "leave the field out, or name the hub, fleet.io/hub" in cause.message
    trained = job()
    trained["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    assert [cause.field for cause in (await hub.refused(trained)).causes] == ["spec.runPolicy.managedBy"]


@pytest.mark.parametrize("by", ["fleet.io/hub", "kubernetes.io/job-controller"])
async def test_the_hub_and_the_kinds_own_controller_may_manage_a_job(hub: Hub, by: str) -> None:
    assert (await hub.create(managed(by)))["spec"]["managedBy"] == by


STOPPED = {"parallelism": 0, "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}


async def test_a_job_without_pods_is_told_how_it_is_stopped(hub: Hub) -> None:
    paused = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": STOPPED}
    (cause,) = (await hub.refused(paused)).causes
    assert cause.field == "spec.parallelism" and "to stop it, set spec.suspend: true" in cause.message


async def test_a_kind_that_cannot_be_suspended_is_stopped_by_no_replicas(hub: Hub) -> None:
    labels = {"app": "a"}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, **pod()}}
    for kind in ("Deployment", "StatefulSet"):
        made = await hub.create({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "s"}, "spec": spec})
        assert made["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("trainer", "field"),
    [
        ({"numNodes": 3}, "spec.trainer.resourcesPerNode"),
        ({"resourcesPerNode": {"limits": {"cpu": 1}}}, "spec"),
    ],
)
def test_a_job_of_a_kind_without_templates_is_told_which_field_says_its_size(trainer: Body, field: str) -> None:
    interpreter = interpreter_of("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert interpreter is not None
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j"},
        "spec": {"trainer": trainer},
    }
    kind = Kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", "trainjob", True, "TrainJobList")
    review = Review("CREATE", kind, "", "default", "j", body, None, USER.user, dry_run=False)
    (cause,) = check_of_jobs(review)
    assert cause.field == field and "fleet.io/size" in cause.message
