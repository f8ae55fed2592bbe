"""A typed Go client on the hub: kube-controller-manager reads and writes in protobuf by default."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from api.server import watch, writes
from tests.api.conftest import Hub
from tests.testbed.build import parts

NAMESPACES = "/api/v1/namespaces"
CONTROLLERS = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")


def _start(hub: Hub) -> subprocess.Popen[bytes]:
    with (hub.folder / "controllers.log").open("wb") as log:
        return subprocess.Popen(
            [
                parts().binary("kube-controller-manager"),
                f"--kubeconfig={hub.kubeconfig()}",
                "--secure-port=0",
                f"--controllers={','.join(CONTROLLERS)}",
                f"--root-ca-file={hub.cert}",
            ],
            stdout=log,
            stderr=log,
        )


@asynccontextmanager
async def _controllers(hub: Hub) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = _start(hub)
    try:
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 60)


async def _until(client: httpx.AsyncClient, path: str, process: subprocess.Popen[bytes], hub: Hub) -> dict[str, Any]:
    for _ in range(600):
        answer = await client.get(path)
        if answer.status_code == 200:
            found: dict[str, Any] = answer.json()
            return found
        assert process.poll() is None, (hub.folder / "controllers.log").read_text()[-3000:]
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} is not there: {(hub.folder / 'controllers.log').read_text()[-3000:]}")


async def test_real_controllers_work_on_protobuf(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Informers watch, a leader is elected, and objects are created, all in protobuf."""
    sent: dict[str, int] = {"event": 0, "write": 0}

    def counted(module: Any, name: str, what: str) -> None:
        real = getattr(module, name)

        def call(*given: Any) -> Any:
            sent[what] += 1
            return real(*given)

        monkeypatch.setattr(module, name, call)

    counted(watch, "frame", "event")
    counted(writes, "whole", "write")
    async with hub.client() as client, _controllers(hub) as process:
        first = await _until(client, f"{NAMESPACES}/default/serviceaccounts/default", process, hub)
        assert first["metadata"]["namespace"] == "default"
        # A watch says of the new namespace, and another of the object that is gone.
        assert (await client.post(NAMESPACES, json={"metadata": {"name": "new"}})).status_code == 201
        await _until(client, f"{NAMESPACES}/new/serviceaccounts/default", process, hub)
        ca = await _until(client, f"{NAMESPACES}/new/configmaps/kube-root-ca.crt", process, hub)
        assert ca["data"]["ca.crt"] == hub.cert.read_text()
        assert (await client.delete(f"{NAMESPACES}/new/configmaps/kube-root-ca.crt")).status_code == 200
        await _until(client, f"{NAMESPACES}/new/configmaps/kube-root-ca.crt", process, hub)
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        lease = await _until(client, f"{leases}/kube-controller-manager", process, hub)
        assert lease["spec"]["holderIdentity"]
    assert sent["event"] >= 4 and sent["write"] >= 4, sent
