"""The reading of each job kind: its components, state, dependencies, and its copy in a member."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.model.amounts import Amounts
from fleet.core.model.unit import Requirement, Toleration
from fleet.kinds import Health, Interpreter, JobState, interpreter_of
from fleet.values.quantity import BadQuantity
from tests.kinds.bodies import kind_of

Body = dict[str, Any]

PYTORCH = kind_of("kubeflow.org/v1", "PyTorchJob")
MPI = kind_of("kubeflow.org/v1", "MPIJob")
TF = kind_of("kubeflow.org/v1", "TFJob")
BATCH = kind_of("batch/v1", "Job")


def pods(cpu: str = "1", **spec: Any) -> Body:
    containers = [{"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu, "nvidia.com/gpu": 2}}}]
    return {"spec": {"containers": containers, **spec}}


def pytorchjob(**replicas: Body) -> Body:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 2,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "own": "a"},
            "managedFields": [{}],
            "ownerReferences": [{}],
            "finalizers": ["f"],
            "labels": {"l": "1"},
        },
        "spec": {"pytorchReplicaSpecs": replicas, "runPolicy": {"cleanPodPolicy": "None"}},
        "status": {"conditions": []},
    }


def batch_job(**spec: Any) -> Body:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "b", "namespace": "team"},
        "spec": {"template": pods(), **spec},
    }


def condition(type_: str, status: str = "True", message: str = "") -> Body:
    return {"type": type_, "status": status, "message": message}


def test_components_come_in_their_order_whatever_the_order_in_the_manifest() -> None:
    job = pytorchjob(Worker={"replicas": 3, "template": pods("500m")}, Master={"template": pods("2")})
    master, worker = PYTORCH.components(job)
    assert (master.name, master.replicas) == ("master", 1)  # replicas left out are one
    assert master.requests == Amounts.of({"cpu": 2000, "nvidia.com/gpu": 2, "pods": 1})
    assert (worker.name, worker.replicas, worker.requests["cpu"]) == ("worker", 3, 500)


def test_tensorflow_and_mpi_start_with_who_leads() -> None:
    one = {"template": pods()}
    tf: Body = {"spec": {"tfReplicaSpecs": {"Worker": one, "Evaluator": one, "PS": one, "Chief": one}}}
    assert [c.name for c in TF.components(tf)] == ["chief", "ps", "worker", "evaluator"]
    mpi: Body = {"spec": {"mpiReplicaSpecs": {"Worker": one, "Launcher": one}}}
    assert [c.name for c in MPI.components(mpi)] == ["launcher", "worker"]


def test_a_replica_type_without_pods_is_no_component() -> None:
    job = pytorchjob(Master={"template": pods()}, Worker={"replicas": 0, "template": pods()})
    assert [c.name for c in PYTORCH.components(job)] == ["master"]
    assert [t.replicas for t in PYTORCH.templates(job)] == [1, 0]


@pytest.mark.parametrize(
    ("spec", "at_once"),
    [({}, 1), ({"parallelism": 4}, 4), ({"parallelism": 4, "completions": 2}, 2), ({"completions": 9}, 1)],
)
def test_a_batch_job_wants_the_pods_that_run_at_once(spec: Body, at_once: int) -> None:
    assert [(c.name, c.replicas) for c in BATCH.components(batch_job(**spec))] == [("main", at_once)]


def test_the_claim_says_which_nodes_a_pod_may_use() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    template = pods(nodeSelector={"b": "2", "a": "1"}, tolerations=[{"operator": "Exists"}], affinity=affinity)
    claim = PYTORCH.components(pytorchjob(Master={"template": template}))[0].claim
    assert claim.node_selector == (("a", "1"), ("b", "2"))
    assert claim.tolerations == (Toleration(operator="Exists"),)
    labelled, named, nowhere = claim.affinity
    assert labelled == (Requirement("gpu", "In", ("h100",)),)
    assert named == (Requirement("metadata.name", "In", ("n1",)),)  # which is not always the host name
    assert nowhere == (Requirement("", "In"),)  # an empty term matches no node


def test_a_quantity_that_does_not_parse_is_an_error_and_no_zero() -> None:
    with pytest.raises(BadQuantity):
        PYTORCH.components(pytorchjob(Master={"template": pods("one")}))


def test_the_priority_class_is_the_first_that_a_template_names_else_that_of_the_run_policy() -> None:
    job = pytorchjob(Master={"template": pods()}, Worker={"template": pods(priorityClassName="high")})
    assert PYTORCH.priority_class(job) == "high"
    job = pytorchjob(Master={"template": pods()})
    assert PYTORCH.priority_class(job) == ""
    job["spec"]["runPolicy"]["schedulingPolicy"] = {"priorityClass": "low"}
    assert PYTORCH.priority_class(job) == "low"


@pytest.mark.parametrize(
    ("conditions", "state", "health"),
    [
        ([], JobState.UNKNOWN, Health.UNKNOWN),
        ([condition("Queuing")], JobState.UNKNOWN, Health.UNKNOWN),
        ([condition("Created")], JobState.CREATED, Health.HEALTHY),
        ([condition("Created"), condition("Running")], JobState.RUNNING, Health.HEALTHY),
        (
            [condition("Created"), condition("Running", "False"), condition("Restarting")],
            JobState.RUNNING,
            Health.HEALTHY,
        ),
        ([condition("Created"), condition("Suspended")], JobState.SUSPENDED, Health.HEALTHY),
        ([condition("Running", "False"), condition("Succeeded")], JobState.SUCCEEDED, Health.HEALTHY),
        ([condition("Running"), condition("Failed")], JobState.FAILED, Health.UNHEALTHY),
        ([condition("Failed"), condition("Created")], JobState.FAILED, Health.UNHEALTHY),
    ],
)
def test_kubeflow_jobs_stand_where_their_last_true_condition_says(
    conditions: list[Body], state: JobState, health: Health
) -> None:
    assert PYTORCH.state({"conditions": conditions}).state is state
    assert PYTORCH.health({"status": {"conditions": conditions}}) is health


@pytest.mark.parametrize(
    ("status", "state", "health"),
    [
        (None, JobState.UNKNOWN, Health.UNKNOWN),
        ({"startTime": "2026-01-01T00:00:00Z", "active": 2}, JobState.CREATED, Health.HEALTHY),
        ({"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 1}, JobState.RUNNING, Health.HEALTHY),
        ({"conditions": [condition("Complete")], "succeeded": 1}, JobState.SUCCEEDED, Health.HEALTHY),
        ({"conditions": [condition("Failed", message="BackoffLimitExceeded")]}, JobState.FAILED, Health.UNHEALTHY),
        ({"conditions": [condition("Suspended")]}, JobState.SUSPENDED, Health.HEALTHY),
    ],
)
def test_batch_jobs_stand_where_their_status_says(status: Body | None, state: JobState, health: Health) -> None:
    assert BATCH.state(status).state is state
    assert BATCH.health({"status": status}) is health


def test_the_operators_message_is_kept() -> None:
    assert PYTORCH.state({"conditions": [condition("Failed", message="OOM")]}).message == "OOM"


def test_everything_that_a_pod_template_names_is_a_dependency() -> None:
    containers = [
        {
            "name": "c",
            "image": "i",
            "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "env-secret"}}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key-secret", "key": "k"}}},
                {"name": "C", "value": "plain"},
            ],
        }
    ]
    volumes = [
        {"name": "a", "configMap": {"name": "volume"}},
        {"name": "b", "secret": {"secretName": "volume-secret"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "p"}}, {"secret": {"name": "p-secret"}}]}},
        {"name": "e", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi-secret"}}},
        {"name": "f", "emptyDir": {}},
    ]
    template = {
        "spec": {
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "init"}}]}],
            "containers": containers,
            "volumes": volumes,
            "imagePullSecrets": [{"name": "pull"}],
        }
    }
    found = PYTORCH.dependencies(pytorchjob(Master={"template": pods()}, Worker={"template": template}))
    maps = {name for kind, namespace, name in found if kind == "ConfigMap" and namespace == "team"}
    secrets = {name for kind, _, name in found if kind == "Secret"}
    assert maps == {"env", "key", "volume", "p", "init"}
    assert secrets == {"env-secret", "key-secret", "volume-secret", "p-secret", "csi-secret", "pull"}
    assert ("PersistentVolumeClaim", "team", "claim") in found


def test_a_member_gets_labels_on_the_job_and_its_pods_and_nothing_that_only_the_hub_means() -> None:
    job = pytorchjob(Master={"replicas": 1, "template": pods()}, Worker={"replicas": 2, "template": pods()})
    before = repr(job)
    stamped = PYTORCH.stamp(job, {"fleet.io/hub": "h"}, {"fleet.io/job": "team/j"}, {"worker": {"rank": "w"}})
    assert repr(job) == before
    assert stamped["metadata"] == {
        "name": "j",
        "namespace": "team",
        "labels": {"l": "1", "fleet.io/hub": "h"},
        "annotations": {"own": "a", "fleet.io/job": "team/j"},
    }
    assert set(stamped) == {"apiVersion", "kind", "metadata", "spec"}
    specs = stamped["spec"]["pytorchReplicaSpecs"]
    assert specs["Master"]["template"]["metadata"]["labels"] == {
        "fleet.io/hub": "h",
        "fleet.io/component": "master",
    }
    assert specs["Worker"]["template"]["metadata"]["labels"] == {
        "fleet.io/hub": "h",
        "fleet.io/component": "worker",
        "rank": "w",
    }
    assert specs["Worker"]["replicas"] == 2 and stamped["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}
    assert PYTORCH.components(stamped) == PYTORCH.components(job)


def test_a_batch_job_travels_without_what_its_api_server_wrote() -> None:
    job = batch_job(selector={"matchLabels": {"controller-uid": "u"}})
    job["spec"]["template"]["metadata"] = {"labels": {"controller-uid": "u", "job-name": "b", "mine": "1"}}
    stamped = BATCH.stamp(job, {"fleet.io/hub": "h"}, {})
    assert "selector" not in stamped["spec"]
    assert stamped["spec"]["template"]["metadata"]["labels"] == {
        "mine": "1",
        "fleet.io/hub": "h",
        "fleet.io/component": "main",
    }
    manual = BATCH.stamp(batch_job(selector={"matchLabels": {"a": "b"}}, manualSelector=True), {}, {})
    assert manual["spec"]["selector"] == {"matchLabels": {"a": "b"}}


@pytest.mark.parametrize(
    ("kind", "job"),
    [(PYTORCH, pytorchjob(Master={"template": pods()})), (BATCH, batch_job())],
    ids=["pytorch", "batch"],
)
def test_suspending_changes_nothing_else_and_can_be_taken_back(kind: Interpreter, job: Body) -> None:
    suspended = kind.suspend(job, True)
    assert kind.suspended(suspended) and not kind.suspended(job)
    assert not kind.suspended(kind.suspend(suspended, False))
    assert kind.components(suspended) == kind.components(job)


def test_the_hub_shows_the_members_status_after_its_own_queuing_condition() -> None:
    queuing = condition("Queuing", "False")
    hub = {"conditions": [condition("Created"), queuing], "startTime": "old"}
    member = {"conditions": [condition("Created"), condition("Running"), condition("Queuing")], "startTime": "new"}
    merged = PYTORCH.merge_status(hub, member)
    assert merged == {"conditions": [queuing, condition("Created"), condition("Running")], "startTime": "new"}
    assert PYTORCH.merge_status({"conditions": [queuing]}, None) == {"conditions": [queuing]}
    assert PYTORCH.merge_status(None, None) == {}


def test_kinds_without_pods_have_no_interpreter() -> None:
    assert interpreter_of("v1", "ConfigMap") is None
    assert interpreter_of("apps/v1", "Job") is None
