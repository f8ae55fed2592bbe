"""The calls that `arena submit`, `list`, `get` and `delete` make, with the labels of its manifests.

The manifests are our own. The labels and calls are those of arena's source (kubeflow/arena: charts/, pkg/training/).
The program itself is not run.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.controllers.world import member, policy
from tests.rest.rest import Rest, rest

V1 = "/apis/kubeflow.org/v1"
ROLES = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch", {"Master": 1, "Worker": 2}),
    "TFJob": ("tfReplicaSpecs", "tensorflow", {"PS": 1, "Worker": 2}),
    "MPIJob": ("mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2}),
}


def manifest(kind: str, name: str) -> dict[str, Any]:
    """A gang of three, as `arena submit --gang` labels it."""
    specs, container, roles = ROLES[kind]
    labels = {
        "app": kind.lower(),
        "chart": f"{kind.lower()}-0.1.0",
        "release": name,
        "heritage": "Helm",
        "createdBy": kind,
    }
    group = {"name": name, "min-available": "3"}
    gang = {f"pod-group.scheduling.sigs.k8s.io/{field}": value for field, value in group.items()}
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod = {"containers": [{"name": container, "image": "i", "command": ["sh", "-c", "train"], "resources": limits}]}
    replicas = {
        role: {
            "replicas": count,
            "restartPolicy": "Never",
            "template": {"metadata": {"labels": {**labels, **gang}}, "spec": pod},
        }
        for role, count in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {specs: replicas},
    }


async def listed(hub: Rest, path: str, selector: str) -> list[str]:
    answer = await hub.client().get(path, params={"labelSelector": selector})
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


@pytest.mark.parametrize("kind", ROLES)
async def test_a_job_of_arena_is_submitted_listed_and_deleted(kind: str) -> None:
    selects = [{"apiVersion": "kubeflow.org/v1", "kind": kind}]
    async with rest(member("cfa"), objects=[policy(resourceSelectors=selects)]) as hub:
        client, plural = hub.client(), f"{kind.lower()}s"
        jobs, maps = f"{V1}/namespaces/default/{plural}", "/api/v1/namespaces/default/configmaps"
        kept = {
            "metadata": {"name": f"train-{kind.lower()}", "labels": {"createdBy": "arena"}},
            "data": {"values": "-"},
        }
        assert (await client.post(maps, json=kept)).status_code == 201
        assert (await client.post(jobs, json=manifest(kind, "train"))).status_code == 201
        assert await listed(hub, f"{V1}/{plural}", f"app={kind.lower()},release") == ["train"]
        assert await listed(hub, jobs, f"app={kind.lower()},release") == ["train"]
        assert await listed(hub, "/api/v1/namespaces/default/pods", f"release=train,app={kind.lower()}") == []
        for path in ("/apis/batch/v1/namespaces/default/jobs", "/apis/apps/v1/namespaces/default/statefulsets"):
            assert await listed(hub, path, "mpi_job_name") == []
        assert (await client.get(f"{jobs}/train")).json()["metadata"]["labels"]["release"] == "train"
        row = (await client.get(f"/fleet/v1/jobs/default/{kind}/train")).json()
        assert (row["pods"], row["gpus"]) == (3, 3)
        assert await listed(hub, maps, "createdBy=arena") == [f"train-{kind.lower()}"]
        assert (await client.delete(f"{jobs}/train")).status_code == 200
        assert (await client.delete(f"{maps}/train-{kind.lower()}")).status_code == 200
