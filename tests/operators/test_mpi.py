"""The MPI operator and its MPIJob v2beta1: a launcher, which ends the job, and two workers, which only wait for it."""

from __future__ import annotations

from tests.operators.cases import JobCases, Kind, condition
from tests.operators.jobs import Body


def mpijob(template: Body) -> Body:
    waiting = {**template, "metadata": {}}
    replicas = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": waiting}}
    policy = {"backoffLimit": 0, "cleanPodPolicy": "Running"}
    spec = {"slotsPerWorker": 1, "runPolicy": policy, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


class TestMPIJob(JobCases):
    operators = ("mpi",)
    kind = Kind(
        path="/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs",
        body=mpijob,
        pods=3,
        selector="training.kubeflow.org/job-name={name}",
        labels=frozenset({"training.kubeflow.org/job-role", "training.kubeflow.org/operator-name"}),
        running=condition("Running", "True", "MPIJobRunning"),
        suspend=("spec", "runPolicy", "suspend"),
        suspended=condition("Suspended", "True", "MPIJobSuspended"),
        succeeded=condition("Succeeded", "True", "MPIJobSucceeded"),
        failed=condition("Failed", "True", "BackoffLimitExceeded/"),  # the launcher pod's reason follows, here none
    )
