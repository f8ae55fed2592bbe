"""Policies for a whole kind."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from fleet.wellknown import POLICY


def everywhere(kind: str, api_version: str = "v1", **spec: Any) -> Body:
    return {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "ClusterPropagationPolicy",
        "metadata": {"name": f"all-{kind.lower()}"},
        "spec": {"resourceSelectors": [{"apiVersion": api_version, "kind": kind}], "placement": {}, **spec},
    }
