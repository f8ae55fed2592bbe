"""The JobSet controller: a leader and two groups of two workers."""

from __future__ import annotations

from tests.operators.cases import JobCases, Kind, condition
from tests.operators.jobs import Body

JOBS = {"leader": (1, 1), "workers": (2, 2)}  # replicas, and pods of each


def jobset(template: Body) -> Body:
    def jobs(pods: int) -> Body:
        return {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}

    replicated = [
        {"name": name, "replicas": replicas, "template": {"spec": jobs(pods)}}
        for name, (replicas, pods) in JOBS.items()
    ]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": replicated}}


def all_ready(status: Body) -> bool:
    """A JobSet has no condition that says so: the counts of its jobs do."""
    ready = {one["name"]: one["ready"] for one in status.get("replicatedJobsStatus", [])}
    return ready == {name: replicas for name, (replicas, _) in JOBS.items()}


class TestJobSet(JobCases):
    operators = ("jobset",)
    kind = Kind(
        path="/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
        body=jobset,
        pods=5,
        selector="jobset.sigs.k8s.io/jobset-name={name}",
        labels=frozenset({
            "jobset.sigs.k8s.io/jobset-uid", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
            "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/restart-attempt", "batch.kubernetes.io/job-name",
            "batch.kubernetes.io/job-completion-index",
        }),
        running=all_ready,
        suspend=("spec", "suspend"),
        suspended=condition("Suspended", "True", "SuspendedJobs"),
        succeeded=condition("Completed", "True", "AllJobsCompleted"),
        failed=condition("Failed", "True", "FailedJobs"),
    )  # fmt: skip
