"""ElasticQuotaTrees."""

from __future__ import annotations

from typing import Any

from tests.admission.conftest import Body

ROOT = {"cpu": 100, "nvidia.com/gpu": 16}


def tree(*children: Body, **root: Any) -> Body:
    return {"root": {"name": "root", "min": ROOT, "max": ROOT, "children": list(children), **root}}


def leaf(name: str, *namespaces: str, **more: Any) -> Body:
    return {"name": name, "namespaces": list(namespaces), **more}


def manifest(spec: Body, name: str = "elasticquotatree", namespace: str = "kube-system") -> Body:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
