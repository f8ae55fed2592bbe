"""PyTorchJob: the Master decides; without one, the first Worker."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done, done
from fleet.values.ports import Body


class PyTorchJobs(KubeflowOperator):
    kind_name, resource, specs_field = "PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs"
    leaders = ("Master",)

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        return active(types["Master" if "Master" in types else "Worker"]) > 0

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        if "Master" in types:
            return all_done(types["Master"], specs["Master"])
        return done(types["Worker"], 0)
