"""The first status of a new built-in object, as on a kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.firststatus import qos_class
from api.engine.registry import Registry
from api.objects.objects import Objects
from fleet.admission.kindfiles import load_kinds
from fleet.values.ports import Body

from .conftest import OPTIONS

KINDS = Registry(load_kinds())


async def created(objects: Objects, resource: str, namespace: str, body: Body) -> Body:
    return (await objects.create(KINDS.need("", resource), namespace, body, OPTIONS)).body


def managed(body: Body) -> set[str]:
    return {field for entry in body["metadata"]["managedFields"] for field in entry["fieldsV1"]}


async def test_a_node_keeps_the_status_that_it_is_created_with(objects: Objects) -> None:
    status = {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}, "status": status}
    body = await created(objects, "nodes", "", node)
    assert body["status"]["allocatable"] == {"cpu": "8"}
    assert body["status"]["conditions"][0]["status"] == "True"
    assert managed(body) == {"f:metadata"}


async def test_a_pod_is_pending_whatever_it_says(objects: Objects) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "registry.example/x:1"}]},
        "status": {"phase": "Running"},
    }
    body = await created(objects, "pods", "default", pod)
    assert body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert managed(body) == {"f:spec"}


async def test_a_claim_is_pending(objects: Objects) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    assert (await created(objects, "persistentvolumeclaims", "default", claim))["status"] == {"phase": "Pending"}


def resources(limits: Any = None, requests: Any = None) -> dict[str, Any]:
    return {"containers": [{"resources": {"limits": limits or {}, "requests": requests or {}}}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (resources(), "BestEffort"),
        (resources({"nvidia.com/gpu": "8"}), "BestEffort"),
        (resources({"cpu": "1", "memory": "1Gi"}), "Guaranteed"),
        (resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "1000m", "memory": "1024Mi"}), "Guaranteed"),
        (resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"}), "Burstable"),
        (resources({"cpu": "1"}), "Burstable"),
        (resources(None, {"memory": "1Gi"}), "Burstable"),
        ({"containers": [*resources({"cpu": "1", "memory": "1Gi"})["containers"], {}]}, "Burstable"),
        (None, "BestEffort"),
    ],
)
def test_quality_of_service_as_the_kubelet_reads_it(spec: Any, expected: str) -> None:
    assert qos_class(spec) == expected
