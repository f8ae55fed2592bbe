"""One simulated member to look into, and a way to wait for what it should show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest_asyncio

from fleet.simulate.cluster import NodeShape, SimulatedCluster

Body = dict[str, Any]
KUBEFLOW = "/apis/kubeflow.org/v1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"


class Member:
    """HTTP to a simulated member; `pods` and `conditions` show it as a user would see it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        headers = {"authorization": f"Bearer {cluster.token}"}
        self.client = httpx.AsyncClient(base_url=cluster.url, headers=headers, timeout=30)

    async def call(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Body:
        answer = await self.client.request(method, path, json=body, headers={"content-type": media_type})
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text[:400]}"
        return dict(answer.json())

    async def post(self, path: str, body: Any) -> Body:
        return await self.call("POST", path, body)

    async def get(self, path: str) -> Body | None:
        answer = await self.client.get(path)
        assert answer.status_code in (200, 404), answer.text
        return dict(answer.json()) if answer.status_code == 200 else None

    async def pods(self) -> dict[str, Body]:
        listed = await self.get(PODS)
        assert listed is not None
        return {pod["metadata"]["name"]: pod for pod in listed["items"]}

    async def phases(self) -> dict[str, str]:
        return {name: pod["status"]["phase"] for name, pod in (await self.pods()).items()}

    async def conditions(self, path: str) -> list[tuple[str, str]]:
        """(type, status) in order."""
        found = await self.get(path)
        return [(c["type"], c["status"]) for c in ((found or {}).get("status") or {}).get("conditions") or ()]

    async def until(self, look: Callable[[], Any], expected: Any = None, *, within_s: float = 15.0) -> Any:
        """What awaiting `look()` gives, once it is `expected` (or, without one, true)."""
        time = asyncio.get_running_loop().time
        deadline = time() + within_s
        while True:
            began = time()
            seen = await look()
            took = time() - began
            if (seen == expected) if expected is not None else seen:
                return seen
            assert time() < deadline, f"after {within_s} s: {seen!r}, not {expected!r}"
            await asyncio.sleep(max(0.02, 4 * took))  # a look at many pods must not be what they wait for


@pytest_asyncio.fixture
async def member() -> AsyncIterator[Member]:
    """Two nodes of four GPUs."""
    cluster = SimulatedCluster("cfa", [NodeShape(count=2, gpus=4)], pod_start_s=0.02, pod_stop_s=0.02)
    await cluster.start()
    member = Member(cluster)
    yield member
    await member.client.aclose()
    await cluster.stop()


def template(*, gpus: int = 1, run_for: str = "", exit_code: int = 0, **spec: Any) -> Body:
    annotations = {}
    if run_for:
        annotations["testbed/run-for"] = run_for
    if exit_code:
        annotations["testbed/exit-code"] = str(exit_code)
    container = {"name": "main", "image": "example/train:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container], **spec}}


def kubeflow_job(kind: str, name: str, specs: dict[str, Body], **run_policy: Any) -> Body:
    """`specs`: replica type -> {replicas, template, restartPolicy?}."""
    prefix = {"XGBoostJob": "xgb"}.get(kind, kind.removesuffix("Job").lower())
    spec: Body = {f"{prefix}ReplicaSpecs": specs}
    if run_policy:
        spec["runPolicy"] = run_policy
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def replicas(count: int, restart: str = "Never", **options: Any) -> Body:
    return {"replicas": count, "restartPolicy": restart, "template": template(**options)}


def pod(name: str, *, annotations: dict[str, str] | None = None, **options: Any) -> Body:
    made = template(**options)
    meta = {"name": name, "annotations": {**made["metadata"]["annotations"], **(annotations or {})}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}
