"""JAXJob: a job runs with any of its Workers, and ends when all of them are done."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done
from fleet.values.ports import Body


class JAXJobs(KubeflowOperator):
    kind_name, resource, specs_field = "JAXJob", "jaxjobs", "jaxReplicaSpecs"

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        return active(types.get("Worker", {})) > 0

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        return "Worker" in specs and all_done(types["Worker"], specs["Worker"])
