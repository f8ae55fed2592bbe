"""MPIJob: a job runs while the Launcher and all Workers run, and ends with the Launcher."""

from __future__ import annotations

from fleet.simulate.kubeflow import KubeflowOperator, active, all_done
from fleet.values.ports import Body


class MPIJobs(KubeflowOperator):
    kind_name, resource, specs_field = "MPIJob", "mpijobs", "mpiReplicaSpecs"
    default_restart = "Never"
    leaders = ("Launcher",)

    def pod_name(self, job: str, type_: str, index: int) -> str:
        return f"{job}-launcher" if type_ == "Launcher" else super().pod_name(job, type_, index)

    def running(self, types: dict[str, dict[int, Body]], specs: dict[str, Body]) -> bool:
        workers = specs.get("Worker") or {"replicas": 0}
        wanted = 1 if workers.get("replicas") is None else int(workers["replicas"])
        return active(types.get("Launcher", {})) > 0 and active(types.get("Worker", {})) >= wanted

    def succeeded(self, types: dict[str, dict[int, Body]], specs: dict[str, Body], job: Body) -> bool:
        return "Launcher" in specs and all_done(types["Launcher"], specs["Launcher"])
