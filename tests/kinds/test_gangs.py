"""How the gang schedulers of members are told which pods start together."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kinds import interpreter_of
from fleet.kinds.gangs import at_once, group_of, marked, scheduler_of, unmarked
from fleet.wellknown import LABEL_GANG
from tests.controllers.world import pytorchjob
from tests.kinds.bodies import pods

KOORD, KUEUE = "gang.scheduling.koordinator.sh", "kueue.x-k8s.io"
RAYJOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r", "namespace": "a"}}
JOBSET = {"replicatedJobs": [{"name": "one", "template": {"spec": {"template": pods()}}}]}
AFTER = {**JOBSET["replicatedJobs"][0], "name": "two", "dependsOn": [{"name": "one", "status": "Complete"}]}
MPI = {"mpiReplicaSpecs": {"Launcher": {"template": pods(0)}, "Worker": {"replicas": 2, "template": pods()}}}
LWS = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pods()}}
VOLCANO_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v", "namespace": "a"}}


def templates(body: dict[str, Any]) -> tuple[Any, ...]:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    return interpreter.templates(body)


@pytest.mark.parametrize(
    ("choice", "labels", "annotations", "scheduler"),
    [
        ("Koordinator", {}, {f"{KOORD}/name": "one", f"{KOORD}/min-available": "3"}, "koord-scheduler"),
        (
            "Koordinator/default-scheduler",
            {},
            {f"{KOORD}/name": "one", f"{KOORD}/min-available": "3"},
            "default-scheduler",
        ),
        ("Volcano", {}, {"scheduling.k8s.io/group-name": "one"}, "volcano"),
        ("Coscheduling", {"scheduling.x-k8s.io/pod-group": "one"}, {}, "scheduler-plugins-scheduler"),
        ("Kubernetes", {LABEL_GANG: "one"}, {}, None),
        (
            "Kueue/training",
            {f"{KUEUE}/queue-name": "training", f"{KUEUE}/pod-group-name": "one"},
            {f"{KUEUE}/pod-group-total-count": "3", f"{KUEUE}/retriable-in-group": "false"},
            None,
        ),
        (
            "Kueue",
            {f"{KUEUE}/queue-name": "default", f"{KUEUE}/pod-group-name": "one"},
            {f"{KUEUE}/pod-group-total-count": "3", f"{KUEUE}/retriable-in-group": "false"},
            None,
        ),
    ],
)
def test_each_pod_says_its_gang_as_the_scheduler_reads_it(
    choice: str, labels: dict[str, str], annotations: dict[str, str], scheduler: str | None
) -> None:
    job = pytorchjob("one", workers=2)
    done = marked(job, templates(job), choice, "one")
    for template in templates(done):
        meta = template.template.get("metadata") or {}
        assert (meta.get("labels") or {}, meta.get("annotations") or {}) == (labels, annotations)
        assert template.template["spec"].get("schedulerName") == scheduler
    assert "metadata" not in templates(job)[0].template, "the job itself is not changed"


def test_marks_for_a_queue_are_read_back_with_the_queue() -> None:
    job = pytorchjob("one", workers=2)
    done = marked(job, templates(job), "Kueue/training", "one")
    assert unmarked(templates(done), "one") == "Kueue/training"
    assert unmarked(templates(done), "one") == ""
    assert all(not any(t.template["metadata"].values()) for t in templates(done))


def test_a_template_that_names_its_scheduler_keeps_it() -> None:
    job = pytorchjob("one", schedulerName="mine")
    assert {t.template["spec"]["schedulerName"] for t in templates(marked(job, templates(job), "Volcano", "one"))} == {
        "mine"
    }


@pytest.mark.parametrize(
    ("choice", "api", "spec"),
    [
        ("Volcano", "scheduling.volcano.sh/v1beta1", {"minMember": 3}),
        ("Coscheduling", "scheduling.x-k8s.io/v1alpha1", {"minMember": 3}),
        ("Kubernetes", "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 3}}}),
    ],
)
def test_the_group_object_counts_all_pods_of_the_job(choice: str, api: str, spec: dict[str, Any]) -> None:
    job = pytorchjob("one", workers=2, namespace="team")
    group = group_of(job, templates(job), choice, "one-pytorchjob")
    assert group is not None
    assert (group["apiVersion"], group["kind"], group["spec"]) == (api, "PodGroup", spec)
    assert (group["metadata"]["name"], group["metadata"]["namespace"]) == ("one-pytorchjob", "team")


def test_a_kind_whose_controller_makes_gangs_itself_is_left_alone() -> None:
    template: dict[str, Any] = {"spec": {"containers": []}}
    job = {**VOLCANO_JOB, "spec": {"tasks": [{"name": "w", "replicas": 2, "template": template}]}}
    assert marked(job, templates(job), "Volcano", "v") == job
    assert group_of(job, templates(job), "Volcano", "v") is None


def test_pods_that_come_later_are_not_of_the_gang() -> None:
    """KubeRay makes the pod that submits a RayJob when the cluster is ready."""
    cluster = {"headGroupSpec": {"template": pods(0)}, "workerGroupSpecs": [{"replicas": 2, "template": pods()}]}
    job = {**RAYJOB, "spec": {"rayClusterSpec": cluster, "submitterPodTemplate": pods(0)}}
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    assert interpreter is not None
    done = marked(job, at_once(interpreter, job), "Koordinator", "r")
    told = {t.name: (t.template["metadata"].get("annotations") or {}) for t in templates(done)}
    assert {name: said.get(f"{KOORD}/min-available") for name, said in told.items()} == {
        "head": "3",
        "group0": "3",
        "submitter": None,
    }
    group = group_of(job, at_once(interpreter, job), "Volcano", "r")
    assert group is not None and group["spec"] == {"minMember": 3}
    assert unmarked(at_once(interpreter, done), "r") == "Koordinator"


@pytest.mark.parametrize(
    ("job", "whole"),
    [
        (("jobset.x-k8s.io/v1alpha2", "JobSet", JOBSET), True),
        (("jobset.x-k8s.io/v1alpha2", "JobSet", {**JOBSET, "startupPolicy": {"startupPolicyOrder": "AnyOrder"}}), True),
        (("jobset.x-k8s.io/v1alpha2", "JobSet", {**JOBSET, "startupPolicy": {"startupPolicyOrder": "InOrder"}}), False),
        (("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [*JOBSET["replicatedJobs"], AFTER]}), False),
        (("kubeflow.org/v2beta1", "MPIJob", MPI), True),
        (("kubeflow.org/v2beta1", "MPIJob", {**MPI, "launcherCreationPolicy": "WaitForWorkersReady"}), False),
        (("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", LWS), True),
        (("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {**LWS, "startupPolicy": "LeaderReady"}), False),
        (("apps/v1", "StatefulSet", {"replicas": 2, "template": pods()}), False),
        (("apps/v1", "StatefulSet", {"replicas": 2, "template": pods(), "podManagementPolicy": "Parallel"}), True),
        (("apps/v1", "Deployment", {"replicas": 2, "template": pods()}), True),
    ],
)
def test_a_job_whose_pods_come_one_after_another_is_no_gang_of_its_member(
    job: tuple[str, str, dict[str, Any]], whole: bool
) -> None:
    body = {"apiVersion": job[0], "kind": job[1], "metadata": {"name": "j", "namespace": "a"}, "spec": job[2]}
    interpreter = interpreter_of(job[0], job[1])
    assert interpreter is not None
    done = marked(body, at_once(interpreter, body), "Coscheduling", "j")
    assert (done != body) is whole
    assert (group_of(body, at_once(interpreter, body), "Coscheduling", "j") is not None) is whole


def test_a_job_whose_pods_all_come_and_go_is_no_gang_of_its_member() -> None:
    meta = {"name": "w", "namespace": "a", "annotations": {"fleet.io/size": "replicas=2,cpu=1"}}
    job = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": meta, "spec": {}}
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    assert interpreter is not None
    assert marked(job, at_once(interpreter, job), "Coscheduling", "w") == job
    assert group_of(job, at_once(interpreter, job), "Coscheduling", "w") is None


@pytest.mark.parametrize(
    ("said", "kinds", "wanted"),
    [
        ("", ["scheduling.volcano.sh/PodGroup"], "Volcano"),
        ("", ["scheduling.koordinator.sh/Reservation", "scheduling.x-k8s.io/PodGroup"], "Koordinator"),
        ("", ["scheduling.k8s.io/PriorityClass"], ""),
        ("None", ["scheduling.volcano.sh/PodGroup"], ""),
        ("Volcano/mine", [], "Volcano/mine"),
        ("Kueue/training", ["kueue.x-k8s.io/LocalQueue"], "Kueue/training"),
        ("", ["kueue.x-k8s.io/LocalQueue", "/Pod"], ""),
    ],
)
def test_a_member_offers_what_it_serves_unless_its_cluster_says_otherwise(
    said: str, kinds: list[str], wanted: str
) -> None:
    assert scheduler_of(said, kinds) == wanted
