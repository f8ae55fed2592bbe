"""The KubeRay operator and its RayJob: a head, two workers, and the pod that submits the job, which ends it.

No Ray runs in the pods, so the dashboards are played: a Ray job is as far as the pod that submits it.
"""

from __future__ import annotations

from tests.operators.cases import JobCases
from tests.operators.jobs import Body, pods_of, soon, stays
from tests.operators.kinds import RAYJOB, says
from tests.testbed.member import RealMember


class TestRayJob(JobCases):
    operators = (RAYJOB.operator,)
    kind = RAYJOB

    def test_its_pods_are_found_by_its_cluster_and_the_submitter_by_its_job(self, member: RealMember) -> None:
        self._post(member, "found")
        soon("the job runs", lambda: self.kind.running(self._status(member, "found")))
        cluster = pods_of(member, f"ray.io/cluster={self._status(member, 'found')['rayClusterName']}")
        labels = [pod["metadata"]["labels"] for pod in cluster]
        told = sorted((one["ray.io/node-type"], one["ray.io/group"], one["ray.io/is-ray-node"]) for one in labels)
        assert told == [("head", "headgroup", "yes"), ("worker", "workers", "yes"), ("worker", "workers", "yes")]
        (submitter,) = pods_of(member, "batch.kubernetes.io/job-name=found")
        assert "ray.io/cluster" not in submitter["metadata"]["labels"]

    def test_its_cluster_goes_when_it_has_ended(self, member: RealMember) -> None:
        self._post(member, "clears", "1s")
        soon("the job succeeded", lambda: self.kind.succeeded(self._status(member, "clears")))
        soon(
            "only the submitter is left", lambda: [_phase(pod) for pod in self._pods(member, "clears")] == ["Succeeded"]
        )

    def test_without_a_shutdown_at_its_end_it_cannot_be_suspended(self, member: RealMember) -> None:
        body = self.kind.job("refused")
        body["spec"] |= {"suspend": True, "shutdownAfterJobFinishes": False}
        member.post(self.kind.path, body)
        soon("the job ended", lambda: says("ValidationFailed")(self._status(member, "refused")))
        stays("it has no pods", lambda: not self._pods(member, "refused"))

    def _pods(self, member: RealMember, name: str) -> list[Body]:
        return [pod for pod in pods_of(member, "") if pod["metadata"]["name"].startswith(f"{name}-")]


def _phase(pod: Body) -> str:
    phase: str = pod["status"]["phase"]
    return phase
