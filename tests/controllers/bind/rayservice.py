"""A kind that no declaration covers, an object of it, and a pod."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body

RAY = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayservices.ray.io"},
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": {
            "plural": "rayservices",
            "singular": "rayservice",
            "kind": "RayService",
            "listKind": "RayServiceList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
TEMPLATE = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}


def rayjob(name: str = "ray", **spec: Any) -> Body:
    groups = {"rayClusterSpec": {"workerGroupSpecs": [{"template": TEMPLATE}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**groups, **spec},
    }


def pod(name: str = "lonely") -> Body:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, **TEMPLATE}
