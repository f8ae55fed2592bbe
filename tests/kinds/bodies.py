"""One job of every kind that Fleet ships a declaration of, with what is to be read of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet.kinds import Interpreter, interpreter_of

Body = dict[str, Any]


def kind_of(api_version: str, kind: str) -> Interpreter:
    """The interpreter of a kind that is known."""
    found = interpreter_of(api_version, kind)
    assert found is not None
    return found


def pods(gpus: int = 1, **spec: Any) -> Body:
    container = {"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "2"}}}
    return {"metadata": {"labels": {"mine": "1"}}, "spec": {"containers": [container], **spec}}


def condition(type_: str, status: str = "True", message: str = "") -> Body:
    return {"type": type_, "status": status, "message": message}


@dataclass(frozen=True)
class Case:
    """`components`: (name, replicas, GPUs). `states`: a status of the kind for each state that it has."""

    api_version: str
    kind: str
    spec: Body
    components: tuple[tuple[str, int, int], ...]
    states: tuple[tuple[str, Body], ...]
    paths: tuple[str, ...] = ()  # of the pod templates; none for a kind without
    suspend: str = "spec.suspend"
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Body:
        meta = {"name": "j", "namespace": "team", "uid": "u", "annotations": dict(self.annotations)}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, "spec": self.spec, "status": {}}


KUBEFLOW_STATES = tuple(
    (state, {"conditions": [condition(state)]}) for state in ("Created", "Running", "Succeeded", "Failed", "Suspended")
)


def kubeflow(kind: str, field_: str, *types: str) -> Case:
    specs = {name: {"replicas": 2 if name == "Worker" else 1, "template": pods()} for name in reversed(types)}
    return Case(
        "kubeflow.org/v1",
        kind,
        {field_: specs},
        tuple((name.lower(), 2 if name == "Worker" else 1, 1) for name in types),
        KUBEFLOW_STATES,
        tuple(f"spec.{field_}.{name}.template" for name in types),
        "spec.runPolicy.suspend",
    )


RAY = {
    "headGroupSpec": {"template": pods(0)},
    "workerGroupSpecs": [
        {"groupName": "Small", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "template": pods()},
        {"groupName": "hosts", "replicas": 2, "minReplicas": 0, "numOfHosts": 4, "template": pods(8)},
        {"groupName": "least", "minReplicas": 3, "template": pods()},
        {"groupName": "off", "replicas": 2, "suspend": True, "template": pods()},
    ],
}
RAY_PARTS = (("head", 1, 0), ("small", 2, 1), ("hosts", 8, 8), ("least", 3, 1))
GROUPS = tuple(f"workerGroupSpecs[{i}].template" for i in range(4))
REPLICATED = [
    {"name": "driver", "template": {"spec": {"template": pods(0)}}},
    {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3, "template": pods(4)}}},
]
SPARK = {
    "type": "Python",
    "driver": {"cores": 1, "memory": "512m", "labels": {"mine": "1"}, "serviceAccount": "spark"},
    "executor": {"instances": 3, "cores": 2, "memory": "4g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
}
CASES = (
    kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),
    kubeflow("TFJob", "tfReplicaSpecs", "Chief", "PS", "Worker", "Evaluator"),
    kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher", "Worker"),
    kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
    kubeflow("PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),
    kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
    Case(
        "batch/v1",
        "Job",
        {"parallelism": 4, "completions": 3, "template": pods()},
        (("main", 3, 1),),
        (
            ("Created", {"startTime": "t"}),
            ("Running", {"ready": 1}),
            ("Succeeded", {"conditions": [condition("Complete")]}),
            ("Failed", {"conditions": [condition("Failed")]}),
            ("Suspended", {"conditions": [condition("Suspended")]}),
        ),
        ("spec.template",),
    ),
    Case(
        "ray.io/v1",
        "RayCluster",
        RAY,
        RAY_PARTS,
        (
            ("Running", {"state": "ready"}),
            ("Suspended", {"state": "suspended"}),
            ("Failed", {"state": "failed"}),
            ("Created", {"observedGeneration": 1}),
            ("Suspended", {"conditions": [condition("RayClusterSuspended")]}),
        ),
        ("spec.headGroupSpec.template", *(f"spec.{group}" for group in GROUPS)),
    ),
    Case(
        "ray.io/v1",
        "RayJob",
        {"rayClusterSpec": RAY, "submitterPodTemplate": pods(0)},
        (*RAY_PARTS, ("submitter", 1, 0)),
        (
            ("Created", {"jobDeploymentStatus": "Initializing"}),
            ("Running", {"jobDeploymentStatus": "Running"}),
            ("Succeeded", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}),
            ("Failed", {"jobDeploymentStatus": "Failed"}),
            ("Failed", {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}),
            ("Suspended", {"jobDeploymentStatus": "Suspended"}),
        ),
        (
            "spec.rayClusterSpec.headGroupSpec.template",
            *(f"spec.rayClusterSpec.{group}" for group in GROUPS),
            "spec.submitterPodTemplate",
        ),
    ),
    Case(
        "batch.volcano.sh/v1alpha1",
        "Job",
        {"tasks": [{"name": "ps", "replicas": 1, "template": pods(0)}, {"replicas": 2, "template": pods()}]},
        (("ps", 1, 0), ("default1", 2, 1)),
        tuple(
            (state, {"state": {"phase": phase}})
            for state, phase in (
                ("Created", "Pending"),
                ("Running", "Running"),
                ("Running", "Restarting"),
                ("Succeeded", "Completed"),
                ("Failed", "Aborted"),
            )
        ),
        ("spec.tasks[0].template", "spec.tasks[1].template"),
        "",
    ),
    Case(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": REPLICATED},
        (("driver", 1, 0), ("workers", 6, 4)),
        (
            ("Created", {"replicatedJobsStatus": [{"name": "driver", "ready": 0}]}),
            ("Running", {"replicatedJobsStatus": [{"name": "driver", "ready": 0}, {"name": "workers", "ready": 1}]}),
            ("Succeeded", {"conditions": [condition("Completed")]}),
            ("Failed", {"conditions": [condition("Failed")]}),
            ("Suspended", {"conditions": [condition("Suspended")]}),
        ),
        tuple(f"spec.replicatedJobs[{i}].template.spec.template" for i in range(2)),
    ),
    Case(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        {"trainer": {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}},
        (("node", 4, 8),),
        (
            ("Created", {"jobsStatus": []}),
            ("Running", {"jobsStatus": [{"name": "node", "active": 1}]}),
            ("Running", {"conditions": [condition("Suspended", "False"), condition("Running")]}),
            ("Succeeded", {"conditions": [condition("Complete")]}),
            ("Failed", {"conditions": [condition("Failed")]}),
            ("Suspended", {"conditions": [condition("Suspended")]}),
        ),
    ),
    Case(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pods(0), "workerTemplate": pods(8)}},
        (("leader", 2, 0), ("worker", 6, 8)),
        (
            ("Created", {"conditions": [condition("Progressing")]}),
            ("Running", {"conditions": [condition("Progressing"), condition("Available")]}),
        ),
        ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
        "",
    ),
    Case(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        SPARK,
        (("driver", 1, 0), ("executor", 3, 1)),
        tuple(
            (state, {"applicationState": {"state": said}})
            for state, said in (
                ("Created", "SUBMITTED"),
                ("Running", "RUNNING"),
                ("Succeeded", "COMPLETED"),
                ("Failed", "FAILED"),
                ("Suspended", "SUSPENDED"),
                ("Created", "PENDING_RERUN"),
            )
        ),
    ),
    Case(
        "apps/v1",
        "Deployment",
        {"replicas": 3, "template": pods()},
        (("main", 3, 1),),
        (
            ("Created", {"conditions": [condition("Progressing")]}),
            ("Running", {"conditions": [condition("Available")]}),
        ),
        ("spec.template",),
        "",
    ),
    Case(
        "apps/v1",
        "StatefulSet",
        {"replicas": 3, "template": pods()},
        (("main", 3, 1),),
        (
            ("Created", {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2}),
            ("Running", {"replicas": 3, "readyReplicas": 3}),
        ),
        ("spec.template",),
        "",
    ),
    Case(
        "argoproj.io/v1alpha1",
        "Workflow",
        {"podMetadata": {"labels": {"mine": "1"}}, "serviceAccountName": "argo"},
        (("main", 4, 2),),
        (
            ("Created", {"phase": "Pending"}),
            ("Running", {"phase": "Running"}),
            ("Succeeded", {"phase": "Succeeded"}),
            ("Failed", {"phase": "Error"}),
        ),
        annotations={"fleet.io/size": "replicas=4,cpu=8,nvidia.com/gpu=2"},
    ),
)
