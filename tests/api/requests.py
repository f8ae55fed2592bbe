"""Requests to a server with one object of each of some kinds, and the parts of an answer that two servers share."""

from __future__ import annotations

import json
from typing import Any

import httpx

SPACE = "limits"
MAPS = f"/api/v1/namespaces/{SPACE}/configmaps"
JSON, MERGE, PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"
APPLY, STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"


def config(name: str = "one", data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"a": "b"}}


Case = tuple[str, str, str, str, Any]  # name, method, path, media type, body
POD = {"containers": [{"name": "c", "image": "i"}]}
DEPLOYMENT = {
    "metadata": {"name": "kept"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
    },
}
KEPT = [
    ("/api/v1/namespaces", {"metadata": {"name": SPACE}}),
    (MAPS, config("kept")),
    (f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": "default"}}),
    (f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": "kept"}}),
    (f"/api/v1/namespaces/{SPACE}/pods", {"metadata": {"name": "kept"}, "spec": POD}),
    (f"/apis/apps/v1/namespaces/{SPACE}/deployments", DEPLOYMENT),
]


async def made(client: httpx.AsyncClient) -> None:
    for path, body in KEPT:
        answer = await client.post(path, json=body)
        assert answer.status_code in (201, 409), answer.text


async def ask(client: httpx.AsyncClient, case: Case, query: str = "") -> httpx.Response:
    _, method, path, media, body = case
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    if query:
        path += ("&" if "?" in path else "?") + query
    return await client.request(method, path, content=data, headers={"content-type": media})


def said(answer: httpx.Response) -> tuple[int, Any, Any, Any]:
    body = answer.json()
    if body["kind"] != "Status":
        return answer.status_code, body["kind"], None, None
    return answer.status_code, body.get("status"), body.get("reason"), body.get("message")
