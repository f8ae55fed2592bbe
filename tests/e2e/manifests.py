"""Builders for what users apply, so that each test shows its whole world."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

ROOT = {"cpu": 999900, "memory": "400000Gi", "kube-queue/max-jobs": 10000000000, "nvidia.com/gpu": 100000}


def pytorchjob(
    name: str,
    *,
    workers: int = 2,
    gpus: int = 1,
    run_for: str | None = None,
    exit_code: int = 0,
    pod: Manifest | None = None,
    restart: str = "Never",
) -> Manifest:
    """One Master and `workers` Workers of `gpus` GPUs each. `run_for`: how long its pods run; None = until deleted.
    `pod` is merged into the pod spec."""
    annotations = {} if run_for is None else {"testbed/run-for": run_for, "testbed/exit-code": str(exit_code)}
    container = {
        "name": "pytorch",
        "image": "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
        "command": ["python", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    extra = dict(pod or {})
    container.update(extra.pop("container", {}))
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container], **extra}}
    replicas: Manifest = {"Master": {"replicas": 1, "restartPolicy": restart, "template": template}}
    if workers:
        replicas["Worker"] = {"replicas": workers, "restartPolicy": restart, "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def gang_policy(name: str = "gang", *, queue: bool = False, toleration_s: int | None = None, **spec: Any) -> Manifest:
    """A PropagationPolicy for PyTorchJobs; with `queue` they wait for quota first."""
    body: Manifest = {
        "propagateDeps": True,
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
        "resourceSelectors": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}],
    }
    if queue:
        body["suspension"] = {"scheduling": True}
    if toleration_s is not None:
        body["failover"] = {
            "application": {"decisionConditions": {"tolerationSeconds": toleration_s}, "purgeMode": "Immediately"}
        }
    placement = spec.pop("placement", {})
    body["placement"].update(placement)
    body.update(spec)
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": body,
    }


def leaf(name: str, *namespaces: str, **limits: Any) -> Manifest:
    """`leaf("a", "team-a", **{"nvidia.com/gpu": 4})`"""
    return {"name": name, "max": limits, "namespaces": list(namespaces)}


def quota_tree(*leaves: Manifest) -> Manifest:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": "kube-system"},
        "spec": {"root": {"name": "root", "max": ROOT, "min": ROOT, "children": list(leaves)}},
    }
