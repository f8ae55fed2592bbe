"""Every job kind as a user writes it: one small job of each, and the words in which its life is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Life:
    """One kind. `specs`: replica type -> pods. `container`: the name that its operator looks for. `leader`: the replica
    type whose end is the job's."""

    kind: str
    resource: str
    container: str
    field: str
    specs: tuple[tuple[str, int], ...]
    leader: str

    @property
    def api(self) -> str:
        return "kubeflow.org/v1" if self.field else "batch/v1"

    @property
    def path(self) -> str:
        return f"/apis/{self.api}/namespaces/default/{self.resource}"

    @property
    def pods(self) -> int:
        return sum(count for _, count in self.specs)

    @property
    def succeeded(self) -> str:
        """The type of the condition that its kind ends well with."""
        return "Succeeded" if self.field else "Complete"

    def job(self, name: str, *, run_for: str = "", exit_code: int = 0, suspend: bool | None = None) -> Body:
        """Each pod asks for one GPU and never restarts. Without `run_for` pods run until they are deleted."""
        template = self.template(run_for, exit_code)
        spec: Body
        if self.field:
            specs = {
                role: {"replicas": count, "restartPolicy": "Never", "template": template} for role, count in self.specs
            }
            spec = {self.field: specs, **({} if suspend is None else {"runPolicy": {"suspend": suspend}})}
        else:
            template["spec"]["restartPolicy"] = "Never"
            spec = {"completions": self.pods, "parallelism": self.pods, "backoffLimit": 0, "template": template}
            spec |= {} if suspend is None else {"suspend": suspend}
        return {"apiVersion": self.api, "kind": self.kind, "metadata": {"name": name}, "spec": spec}

    def template(self, run_for: str, exit_code: int) -> Body:
        marks = {"testbed/run-for": run_for, "testbed/exit-code": str(exit_code)} if run_for else {}
        container = {
            "name": self.container,
            "image": "registry.example/train:1",
            "command": ["train"],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
        return {"metadata": {"annotations": marks}, "spec": {"containers": [container]}}

    def suspension(self, value: bool) -> Body:
        """A merge patch."""
        return {"spec": {"runPolicy": {"suspend": value}} if self.field else {"suspend": value}}


LIVES = (
    Life("PyTorchJob", "pytorchjobs", "pytorch", "pytorchReplicaSpecs", (("Master", 1), ("Worker", 1)), "Master"),
    Life("TFJob", "tfjobs", "tensorflow", "tfReplicaSpecs", (("Chief", 1), ("Worker", 1)), "Chief"),
    Life("MPIJob", "mpijobs", "mpi", "mpiReplicaSpecs", (("Launcher", 1), ("Worker", 1)), "Launcher"),
    Life("JAXJob", "jaxjobs", "jax", "jaxReplicaSpecs", (("Worker", 2),), "Worker"),
    Life("PaddleJob", "paddlejobs", "paddle", "paddleReplicaSpecs", (("Worker", 2),), "Worker"),
    Life("XGBoostJob", "xgboostjobs", "xgboost", "xgbReplicaSpecs", (("Master", 1), ("Worker", 1)), "Master"),
    Life("Job", "jobs", "main", "", (("main", 2),), "main"),
)
