"""Kubeflow's Trainer v2 and its TrainJob: three nodes of a runtime, which it runs as a JobSet."""

from __future__ import annotations

from tests.operators.cases import JobCases, Kind, condition
from tests.operators.jobs import Body, soon
from tests.testbed.member import RealMember

TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def trainjob(template: Body) -> Body:
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"trainer": {"numNodes": 3}}}


def says_nothing(status: Body) -> bool:
    """A TrainJob that runs has no condition that says so, and this version leaves its counts empty."""
    return "jobsStatus" not in status and not any(one["status"] == "True" for one in status.get("conditions", []))


class TestTrainJob(JobCases):
    operators = ("trainer",)
    kind = Kind(
        path=f"{TRAINER}/namespaces/default/trainjobs",
        body=trainjob,
        pods=3,
        selector="jobset.sigs.k8s.io/jobset-name={name}",
        labels=frozenset({
            "jobset.sigs.k8s.io/jobset-uid", "jobset.sigs.k8s.io/replicatedjob-name", "batch.kubernetes.io/job-name",
            "batch.kubernetes.io/job-completion-index",
        }),
        running=says_nothing,
        suspend=("spec", "suspend"),
        suspended=condition("Suspended", "True", "Suspended"),
        succeeded=condition("Complete", "True", "AllJobsCompleted"),
        failed=condition("Failed", "True", "FailedJobs"),
        container="node",
    )  # fmt: skip

    def test_only_its_jobset_tells_how_many_of_its_jobs_run(self, member: RealMember) -> None:
        self._post(member, "tells", self._template(""))
        soon("all pods run", lambda: self._running(member, "tells") == self.kind.pods)
        soon("its JobSet is ready", lambda: self._ready(member, "tells") == {"node": 1})
        assert self._status(member, "tells") == {}

    def _post(self, member: RealMember, name: str, template: Body, *, suspended: bool = False) -> None:
        """A runtime of its own beside the job: the pod's template is the runtime's."""
        job = {"metadata": {"labels": STEP}, "spec": {"backoffLimit": 0, "template": template}}
        policy = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
        spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}}
        kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime"}
        member.post(f"{TRAINER}/clustertrainingruntimes", {**kind, "metadata": {"name": name}, "spec": spec})
        post = super()._post  # refused until the webhook has heard of the runtime
        soon("the job is made", lambda: post(member, name, template, suspended=suspended) is None)

    def _body(self, name: str, template: Body) -> Body:
        body = super()._body(name, template)
        body["spec"]["runtimeRef"] = {"name": name}
        return body

    def _ready(self, member: RealMember, name: str) -> dict[str, int]:
        status = member.get(f"{JOBSETS}/{name}").get("status", {})
        return {one["name"]: one["ready"] for one in status.get("replicatedJobsStatus", [])}
