"""Kubeflow's Trainer v2 and its TrainJob: three nodes of a runtime, which it runs as a JobSet."""

from __future__ import annotations

from tests.operators.cases import JobCases
from tests.operators.jobs import soon
from tests.operators.kinds import TRAINJOB
from tests.testbed.member import RealMember

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


class TestTrainJob(JobCases):
    operators = (TRAINJOB.operator,)
    kind = TRAINJOB

    def test_only_its_jobset_tells_how_many_of_its_jobs_run(self, member: RealMember) -> None:
        self._post(member, "tells")
        soon("all pods run", lambda: self._running(member, "tells") == self.kind.pods)
        soon("its JobSet is ready", lambda: self._ready(member, "tells") == {"node": 1})
        assert self._status(member, "tells") == {}

    def _ready(self, member: RealMember, name: str) -> dict[str, int]:
        status = member.get(f"{JOBSETS}/{name}").get("status", {})
        return {one["name"]: one["ready"] for one in status.get("replicatedJobsStatus", [])}
