"""Objects as the hub sends them to members."""

from __future__ import annotations

from typing import Any

from fleet.wellknown import ANNOTATION_JOB, ATTEMPT, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB
from tests.members.conftest import HUB

Body = dict[str, Any]


def ours(namespace: str, name: str, *, binding: str = "b-1", attempt: int = 1, hub: str = HUB) -> Body:
    return {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL_HUB: hub, LABEL_BINDING: binding, ATTEMPT: str(attempt)},
        "annotations": {ANNOTATION_JOB: f"{namespace}/{name}"},
    }


def config_map(meta: Body, **data: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def pytorch_job(meta: Body, *, workers: int = 2, gpus: int = 1, run_for: str = "") -> Body:
    def replicas(component: str, count: int) -> Body:
        labels = {**meta["labels"], LABEL_COMPONENT: component}
        template: Body = {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [
                    {"name": "pytorch", "image": "example/train:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
                ]
            },
        }
        if run_for:
            template["metadata"]["annotations"] = {"testbed/run-for": run_for}
        return {"replicas": count, "restartPolicy": "Never", "template": template}

    specs = {"Master": replicas("master", 1)}
    if workers:
        specs["Worker"] = replicas("worker", workers)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta,
        "spec": {"pytorchReplicaSpecs": specs},
    }


def pod(name: str, *, node: str = "", gpus: int = 1, labels: Body | None = None, **annotations: str) -> Body:
    spec: Body = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "example/train:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        "restartPolicy": "Never",
    }
    if node:
        spec["nodeName"] = node
    marks = {key.replace("_", "/", 1).replace("_", "-"): value for key, value in annotations.items()}
    metadata: Body = {"name": name, "labels": labels or {}, "annotations": marks}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str, *, gpus: int = 8, labels: Body | None = None, annotations: Body | None = None) -> Body:
    room = {"cpu": "8", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": str(gpus)}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": {"kwok.x-k8s.io/node": "fake", **(annotations or {})},
        },
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }
