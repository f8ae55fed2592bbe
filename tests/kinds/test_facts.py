"""Statuses that real controllers wrote (tests/operators), against the shipped declarations.

JobSet 0.10.1, MPI operator 0.7.0, KubeRay 1.5.1, Kubeflow Trainer 2.0.0, LeaderWorkerSet 0.7.0.
"""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kinds import Interpreter, interpreter_of
from fleet.kinds.interpreter import PodLabels

Body = dict[str, Any]


def reader(kind: str) -> Interpreter:
    api = {
        "JobSet": "jobset.x-k8s.io/v1alpha2",
        "MPIJob": "kubeflow.org/v2beta1",
        "RayJob": "ray.io/v1",
        "RayCluster": "ray.io/v1",
        "TrainJob": "trainer.kubeflow.org/v1alpha1",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    }[kind]
    found = interpreter_of(api, kind)
    assert found is not None
    return found


def told(*conditions: str, **more: Any) -> Body:
    """`Running=True/Reason` as a condition."""
    found = []
    for text in conditions:
        type_, _, rest = text.partition("=")
        status, _, reason = rest.partition("/")
        found.append({"type": type_, "status": status, "reason": reason, "message": f"{type_} for {reason}"})
    return {"conditions": found, **more}


def counted(**counts: int) -> list[Body]:
    none = {"active": 0, "failed": 0, "ready": 0, "succeeded": 0, "suspended": 0}
    return [{"name": "leader", **none}, {"name": "workers", **none, **counts}]


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("JobSet", {"replicatedJobsStatus": counted(active=2), "restarts": 0}, "Created"),
        ("JobSet", {"replicatedJobsStatus": counted(active=2, ready=2), "restarts": 0}, "Running"),
        ("JobSet", told("Suspended=False/ResumeJobs", replicatedJobsStatus=counted(ready=2)), "Running"),
        ("JobSet", told("Suspended=True/SuspendedJobs", replicatedJobsStatus=counted(suspended=2)), "Suspended"),
        ("JobSet", told("Completed=True/AllJobsCompleted", replicatedJobsStatus=counted(succeeded=2)), "Succeeded"),
        ("JobSet", told("Failed=True/FailedJobs", replicatedJobsStatus=counted(failed=2)), "Failed"),
        ("MPIJob", told("Created=True/MPIJobCreated"), "Created"),
        ("MPIJob", told("Created=True/MPIJobCreated", "Running=True/MPIJobRunning"), "Running"),
        ("MPIJob", told("Created=True/MPIJobCreated", "Suspended=True/MPIJobSuspended"), "Suspended"),
        (
            "MPIJob",
            told("Created=True/MPIJobCreated", "Running=False/MPIJobRunning", "Succeeded=True/MPIJobSucceeded"),
            "Succeeded",
        ),
        (
            "MPIJob",
            told("Created=True/MPIJobCreated", "Running=False/MPIJobRunning", "Failed=True/BackoffLimitExceeded/"),
            "Failed",
        ),
        ("RayJob", {"jobDeploymentStatus": "Initializing", "rayClusterName": "one-xbrq2"}, "Created"),
        ("RayJob", {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Running"),
        ("RayJob", {"jobDeploymentStatus": "Suspended"}, "Suspended"),
        ("RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Succeeded"),
        ("RayJob", {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed"}, "Failed"),
        ("RayJob", {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}, "Failed"),
        (
            "RayCluster",
            told(
                "HeadPodReady=True/HeadPodRunningAndReady",
                "RayClusterSuspended=False/RayClusterSuspended",
                state="ready",
            ),
            "Running",
        ),
        ("RayCluster", told("RayClusterSuspended=True/RayClusterSuspended", state="suspended"), "Suspended"),
        ("RayCluster", {"desiredWorkerReplicas": 2, "observedGeneration": 1}, "Created"),
        ("TrainJob", {}, "Unknown"),  # and runs: the hub asks its pods, and shows the condition of the next row
        ("TrainJob", told("Queuing=False/Dequeued", "Running=True/PodsRunning"), "Running"),
        ("TrainJob", told("Suspended=True/Suspended"), "Suspended"),
        ("TrainJob", told("Suspended=False/Resumed"), "Unknown"),
        ("TrainJob", told("Complete=True/AllJobsCompleted"), "Succeeded"),
        ("TrainJob", told("Failed=True/FailedJobs"), "Failed"),
        ("LeaderWorkerSet", told("Progressing=True/GroupsProgressing", replicas=2), "Created"),
        (
            "LeaderWorkerSet",
            told("Progressing=False/GroupsProgressing", "Available=True/AllGroupsReady", replicas=2),
            "Running",
        ),
    ],
)
def test_the_state_is_what_the_controller_says(kind: str, status: Body, state: str) -> None:
    assert str(reader(kind).state(status).state) == state


def test_what_the_controller_says_of_a_failure_is_kept() -> None:
    failed = told("Failed=True/FailedJobs")
    assert reader("TrainJob").state(failed).message == reader("JobSet").state(failed).message == "Failed for FailedJobs"
    assert reader("MPIJob").state(told("Failed=True/BackoffLimitExceeded/")).message.startswith("Failed for")
    assert reader("RayJob").state({"jobDeploymentStatus": "Failed", "message": "exit code 1"}).message == "exit code 1"


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("JobSet", PodLabels("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")),
        ("RayJob", PodLabels("", "ray.io/group")),
        ("RayCluster", PodLabels("ray.io/cluster", "ray.io/group")),
        ("TrainJob", PodLabels("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name")),
        ("LeaderWorkerSet", PodLabels("leaderworkerset.sigs.k8s.io/name", "")),
    ],
)
def test_pods_are_known_by_labels_that_the_controller_sets(kind: str, labels: PodLabels) -> None:
    assert reader(kind).pod_labels == labels
