"""Kinds that declarations make job kinds: their CRDs, and a job of each."""

from __future__ import annotations

import copy

from fleet.values.ports import Body
from tests.kinds.bodies import pods


def crd(group: str, version: str, kind: str, plural: str) -> Body:
    """A CRD that takes any spec and any status."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def no_end(gpus: int = 1) -> Body:
    return pods(gpus, restartPolicy="Never")


RAY = {
    "headGroupSpec": {"template": no_end(0)},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "minReplicas": 0, "template": no_end()}],
}
SERVED = {"selector": {"matchLabels": {"mine": "1"}}, "template": pods(1, restartPolicy="Always"), "replicas": 2}
JOBS: dict[str, tuple[str, str, Body, dict[str, str]]] = {  # kind: apiVersion, plural, spec, annotations
    "RayJob": ("ray.io/v1", "rayjobs", {"rayClusterSpec": RAY}, {}),
    "RayCluster": ("ray.io/v1", "rayclusters", RAY, {}),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        "jobsets",
        {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"template": no_end()}}}]},
        {},
    ),
    "TrainJob": (
        "trainer.kubeflow.org/v1alpha1",
        "trainjobs",
        {"trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}},
        {},
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        {"leaderWorkerTemplate": {"size": 3, "workerTemplate": no_end()}},
        {},
    ),
    "SparkApplication": (
        "sparkoperator.k8s.io/v1beta2",
        "sparkapplications",
        {
            "type": "Scala",
            "driver": {"memory": "512m"},
            "executor": {"instances": 2, "gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
        },
        {},
    ),
    "Workflow": ("argoproj.io/v1alpha1", "workflows", {}, {"fleet.io/size": "replicas=2,nvidia.com/gpu=1"}),
    "Deployment": ("apps/v1", "deployments", SERVED, {}),
    "StatefulSet": ("apps/v1", "statefulsets", {**SERVED, "serviceName": "s"}, {}),
}


def job(kind: str, name: str) -> Body:
    api_version, _, spec, annotations = JOBS[kind]
    meta = {"name": name, "annotations": dict(annotations)}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": copy.deepcopy(spec)}


WIDGET = crd("example.com", "v1", "Widget", "widgets")
DECLARED: Body = {
    "apiVersion": "config.fleet.io/v1alpha1",
    "kind": "WorkloadInterpreter",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "target": {"group": "example.com", "kind": "Widget"},
        "components": [
            {
                "name": "part",
                "forEach": "object.spec.parts",
                "nameFrom": "item.called",
                "replicas": "item.count * 2",
                "template": "item.pod",
            },
        ],
        "suspend": "object.spec.paused",
        "state": [
            {"state": "Succeeded", "when": 'status.phase == "Done"'},
            {"state": "Failed", "when": 'status.phase == "Broken"'},
            {"state": "Running", "when": 'status.phase == "Up"'},
        ],
        "pods": {"nameLabel": "example.com/widget", "componentLabel": "example.com/part"},
    },
}


def widget(name: str) -> Body:
    parts = [{"called": "front", "count": 1, "pod": no_end()}, {"called": "back", "count": 1, "pod": no_end(0)}]
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"parts": parts}}
