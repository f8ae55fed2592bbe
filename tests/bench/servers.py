"""The two servers of `make bench api`, each with its database, alone: no controllers, no nodes, no scheduler.

Both speak TLS, check the signed token of a service account, ask RBAC, and have their database on disk with fsync.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.bench.family import cpu_seconds, pss_mib
from tests.testbed.build import parts
from tests.testbed.member import RealMember
from tests.testbed.pki import ADMIN, make_pki
from tests.testbed.processes import Processes, free_port, wait_for

NAMESPACE = "bench"
ACCOUNT = "load"
TOKEN_S = 7200
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
RBAC = "rbac.authorization.k8s.io"


@dataclass
class Server:
    """A running server. `token` is that of a service account that may do everything with ConfigMaps, `admin` may do
    all."""

    name: str
    url: str
    authority: Path
    admin: str
    processes: Processes
    server: str  # the names of its processes
    database: str
    token: str = ""

    @property
    def address(self) -> str:
        return self.url.removeprefix("https://")

    def client(self, token: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {token or self.admin}"}
        return httpx.Client(base_url=self.url, verify=str(self.authority), headers=headers, timeout=120)

    def parts(self) -> dict[str, list[psutil.Process]]:
        """The processes of the server and of its database."""
        server = psutil.Process(self.processes.pid(self.server))
        if self.database != self.server:
            return {"server": [server], "database": [psutil.Process(self.processes.pid(self.database))]}
        # The hub's database is a child of its API process, behind a watchdog.
        return {"server": [server], "database": server.children(recursive=True)}

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time of each part so far."""
        return {part: cpu_seconds(processes) for part, processes in self.parts().items()}

    def memory(self) -> dict[str, float]:
        """MiB of each part: PSS, so that pages which PostgreSQL's processes share count once."""
        return {part: sum(pss_mib(process) for process in processes) for part, processes in self.parts().items()}

    def prepare(self) -> None:
        """Make the namespace, and the service account with its rights and its token."""
        with self.client() as client:
            asked(client.post("/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}}))
            accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
            asked(client.post(accounts, json={"metadata": {"name": ACCOUNT}}))
            path, wanted = f"{accounts}/{ACCOUNT}/token", {"spec": {"expirationSeconds": TOKEN_S}}
            answer: dict[str, Any] = asked(client.post(path, json=wanted)).json()
            self.token = answer["status"]["token"]
            self.grant(client, NAMESPACE)

    def grant(self, client: httpx.Client, namespace: str) -> None:
        """Give the service account the right to the namespace's ConfigMaps, and wait until it has it."""
        path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
        binding = {
            "metadata": {"name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}],
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT},
        }
        asked(client.post(f"{path}/roles", json={"metadata": {"name": ACCOUNT}, "rules": RULES}))
        asked(client.post(f"{path}/rolebindings", json=binding))
        with self.client(self.token) as own:
            maps = CONFIGMAPS.replace(NAMESPACE, namespace)
            wait_for("the right to list", lambda: asked(own.get(maps)), 30)


def ready(server: Server) -> None:
    """Wait until it answers. (The hub's /readyz also asks for controllers, which do not run here.)"""
    with server.client() as client:
        wait_for(f"{server.name} ready", lambda: asked(client.get("/api/v1/namespaces")), 120, 0.02)


def asked(answer: httpx.Response) -> httpx.Response:
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}"
    return answer


class HubAlone:
    """One `fleet api` process with the embedded PostgreSQL, in a data directory of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self._processes = Processes(folder)
        self._port = free_port()

    def start(self) -> Server:
        self._processes.start(
            "api",
            [
                sys.executable,
                "-m",
                "fleet.cli.main",
                "api",
                "--data-dir",
                self.data,
                "--listen",
                f"127.0.0.1:{self._port}",
            ],
        )
        wait_for("the hub's keys", lambda: (self.data / "tokens.csv").exists(), 60)
        token = (self.data / "tokens.csv").read_text().partition(",")[0]
        server = Server(
            "hub", f"https://127.0.0.1:{self._port}", self.data / "pki" / "ca.crt", token, self._processes, "api", "api"
        )
        ready(server)
        return server

    def stop(self) -> None:
        self._processes.stop(["api"], within_s=30)


@contextlib.contextmanager
def started_hub(folder: Path) -> Iterator[Server]:
    hub = HubAlone(folder)
    try:
        server = hub.start()
        server.prepare()
        yield server
    finally:
        hub.stop()


@contextlib.contextmanager
def started_real(folder: Path) -> Iterator[Server]:
    """kube-apiserver and etcd, as the test bed runs them, but for etcd's fsync."""
    folder.mkdir(parents=True)
    built, processes, pki = parts(), Processes(folder), make_pki(folder / "pki")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    try:
        processes.start(
            "etcd",
            [
                built.binary("etcd"),
                "--name=etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=etcd={peer}",
                "--quota-backend-bytes=8589934592",
                "--log-level=warn",
            ],
        )
        wait_for("etcd", lambda: httpx.get(f"{client}/health").json()["health"] == "true")
        member = RealMember("real", folder / "real", built, pki, processes, client)
        member.start_apiserver()
        member.wait_apiserver()
        server = Server("kube-apiserver", member.url, pki.ca, ADMIN, processes, "real.apiserver", "etcd")
        server.prepare()
        yield server
    finally:
        processes.stop([name for name in processes.names() if name != "etcd"])
        processes.stop([name for name in processes.names() if name == "etcd"])
