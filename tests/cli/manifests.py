"""Objects as users write them, and the files that they lie in: jobs, policies, quota trees, rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

GPU = "nvidia.com/gpu"
RBAC = "rbac.authorization.k8s.io"
LEAF = {"name": "a", "max": {"kube-queue/max-jobs": 1}, "namespaces": ["default"]}
TREE = {
    "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
    "kind": "ElasticQuotaTree",
    "metadata": {"name": "tree", "namespace": "kube-system"},
    "spec": {"root": {"name": "root", "children": [LEAF]}},
}
LIMITS = {GPU: 64}
QUOTA = {
    **TREE,
    "spec": {
        "root": {
            "name": "root",
            "max": LIMITS,
            "min": LIMITS,
            "children": [
                {"name": "a", "max": LIMITS, "min": LIMITS, "namespaces": ["default"]},
            ],
        }
    },
}
FIXED: dict[str, Any] = {"labels": {"quota.scheduling.koordinator.sh/preemptible": "false"}}


def job(name: str, gpus: int = 8, **metadata: Any) -> dict[str, Any]:
    limits = {"cpu": "8", "memory": "64Gi", GPU: gpus}
    container = {"name": "pytorch", "image": "train", "resources": {"limits": limits}}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, **metadata},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }


def policy(**placement: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}],
            "suspension": {"scheduling": True},
            "placement": {
                "replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"},
                **placement,
            },
        },
    }


def written(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def short(name: str, gpus: int = 1, **metadata: Any) -> dict[str, Any]:
    """A job that is over after a moment."""
    body = job(name, gpus, **metadata)
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"annotations": {"testbed/run-for": "1s"}}
    return body


def binding(user: str, role: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": namespace},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
    }


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
