"""A kind that a user brings, and an object of it."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]


def widget_crd(**spec: Any) -> Body:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            **spec,
        },
    }


def widget(name: str = "w", size: object = 1, **metadata: Any) -> Body:
    metadata["name"] = name
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}}
