"""ConfigMaps, and jobs that mount them."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import pytorchjob


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def with_config(name: str, config: str, **how: Any) -> dict[str, Any]:
    return pytorchjob(name, volumes=[{"name": "c", "configMap": {"name": config}}], **how)
