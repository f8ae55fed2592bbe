"""PaddleJob: the Master decides; a collective job, which has none, ends when all Workers are done."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done
from fleet.values.ports import Body


class PaddleJobs(KubeflowOperator):
    kind_name, resource, specs_field = "PaddleJob", "paddlejobs", "paddleReplicaSpecs"
    leaders = ("Master",)

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        return active(types.get("Master" if "Master" in types else "Worker", {})) > 0

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        leader = "Master" if "Master" in specs else "Worker"
        return leader in specs and all_done(types[leader], specs[leader])
