"""Roles and their bindings, and requests of a user of the hub."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.conftest import Hub

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"


async def post(hub: Hub, path: str, body: dict[str, Any], token: str = "admin-token") -> httpx.Response:
    async with hub.client(token) as client:
        return await client.post(path, json=body)


async def get(hub: Hub, path: str, token: str = "alice-token") -> httpx.Response:
    async with hub.client(token) as client:
        return await client.get(path)


def role(name: str, verbs: list[str], resources: list[str], **more: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "resources": resources, "verbs": verbs, **more}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [rule],
    }


def cluster_role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def binding(name: str, kind: str, subject: str, role_kind: str, role_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": subject}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
    }


async def grant(hub: Hub, user: str, verbs: list[str], resources: list[str], **more: Any) -> None:
    name = f"{user}-{'-'.join(resources).replace('/', '.')}-{verbs[0].replace('*', 'all')}"
    where = f"{RBAC}/namespaces/default"
    answer = await post(hub, f"{where}/roles", role(name, verbs, resources, **more))
    assert answer.status_code == 201, answer.text
    answer = await post(hub, f"{where}/rolebindings", binding(name, "RoleBinding", user, "Role", name))
    assert answer.status_code == 201, answer.text
