"""A member that the hub is a proxy for."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from tests.api.conftest import Hub

PROXY = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy"


def kubeconfig(url: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "member-token"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


async def join(hub: Hub, url: str) -> None:
    async with hub.client() as client:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-system"}}
        assert (await client.post("/api/v1/namespaces", json=namespace)).status_code == 201
        secret: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "member-m1"},
            "type": "Opaque",
            "data": {"kubeconfig": b64encode(kubeconfig(url).encode()).decode()},
        }
        answer = await client.post("/api/v1/namespaces/fleet-system/secrets", json=secret)
        assert answer.status_code == 201, answer.text
        cluster = {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "m1"},
            "spec": {
                "syncMode": "Push",
                "apiEndpoint": url,
                "secretRef": {"namespace": "fleet-system", "name": "member-m1"},
            },
        }
        answer = await client.post("/apis/cluster.karmada.io/v1alpha1/clusters", json=cluster)
        assert answer.status_code == 201, answer.text
