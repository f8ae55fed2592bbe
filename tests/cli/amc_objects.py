"""Objects that tests create with `kubectl amc`."""

from __future__ import annotations


def pod_template() -> dict[str, object]:
    container = {"name": "pytorch", "image": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"spec": {"containers": [container]}}


def job(name: str, **metadata: object) -> dict[str, object]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, **metadata},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": pod_template()}}},
    }


def metrics_kind(resource: str) -> dict[str, object]:
    """A kind in the place of what a metrics-server serves."""
    kind = {"nodes": "NodeMetrics", "pods": "PodMetrics"}[resource]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": resource, "singular": resource[:-1], "kind": kind, "listKind": f"{kind}List"}
    approved = {"api-approved.kubernetes.io": "unapproved, a stand-in"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource}.metrics.k8s.io", "annotations": approved},
        "spec": {
            "group": "metrics.k8s.io",
            "scope": "Cluster" if resource == "nodes" else "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
