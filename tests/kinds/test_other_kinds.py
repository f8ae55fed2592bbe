"""The smaller kinds of kubeflow.org: what their replica types are called, and in which order they come."""

from __future__ import annotations

import pytest

from fleet.kinds import interpreter_of


@pytest.mark.parametrize(
    ("kind", "field", "types"),
    [
        ("JAXJob", "jaxReplicaSpecs", ("Worker",)),
        ("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
        ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    ],
)
def test_components_come_in_their_order_with_their_requests(kind: str, field: str, types: tuple[str, ...]) -> None:
    interpreter = interpreter_of("kubeflow.org/v1", kind)
    assert interpreter is not None
    container = {"name": "c", "image": "registry.example/x:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    template = {"spec": {"containers": [container]}}
    specs = {name: {"replicas": 3, "template": template} for name in reversed(types)}
    body = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "one"}, "spec": {field: specs}}
    components = interpreter.components(body)
    assert [component.name for component in components] == [name.lower() for name in types]
    assert all((c.replicas, c.requests["nvidia.com/gpu"]) == (3, 2) for c in components)
    stamped = interpreter.stamp(body, {"fleet.io/hub": "h"}, {})
    labels = stamped["spec"][field]["Worker"]["template"]["metadata"]["labels"]
    assert labels == {"fleet.io/hub": "h", "fleet.io/component": "worker"}
