"""TFJob: Chief or Master decides; without one the first Worker, or all of them where successPolicy says AllWorkers."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done, done
from fleet.values.ports import Body


class TFJobs(KubeflowOperator):
    kind_name, resource, specs_field = "TFJob", "tfjobs", "tfReplicaSpecs"
    default_restart = "Never"
    leaders = ("Chief", "Master")

    def _leader(self, types: dict[str, dict[int, Body]]) -> str:
        return next((type_ for type_ in self.leaders if type_ in types), "Worker")

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        return active(types.get(self._leader(types), {})) > 0

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        leader = self._leader(types)
        if leader not in specs:
            return bool(specs) and all(all_done(types[type_], spec) for type_, spec in specs.items())
        if leader != "Worker" or job["spec"].get("successPolicy") == "AllWorkers":
            return all_done(types[leader], specs[leader])
        return done(types[leader], 0)
