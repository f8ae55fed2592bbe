"""Several API processes of one hub, on one data directory and one PostgreSQL, without controllers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from fleet.cli.datadir import DataDir
from fleet.hub.firststart import write_kubeconfig
from tests.chaos.client import Client
from tests.e2e.hub import BIN
from tests.testbed.processes import Processes, free_port, wait_for

READY_S = 120.0


class ApiProcesses:
    """`start(name)` returns the administrator's kubeconfig for that process. `database_url`: of a PostgreSQL that
    others keep; without it the processes keep one."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self._database = ("--database-url", database_url) if database_url else ()
        self.data = DataDir(folder / "hub")
        self._folder = folder
        self._running = Processes(folder)
        self._ports: dict[str, int] = {}

    def start(self, name: str) -> Path:
        port = self._ports.setdefault(name, free_port())
        where = ["--data-dir", self.data.root, "--listen", self.address(name)]
        self._running.start(name, [BIN / "fleet", "api", *where, *self._database])
        wait_for(f"the keys of {name}", lambda: self.data.tokens.exists() and self.data.admin_token(), READY_S)
        wait_for(f"the keys of {name}", self.data.server_key.exists, READY_S)
        write_kubeconfig(self.data, f"https://127.0.0.1:{port}")
        kubeconfig = self._folder / f"{name}.kubeconfig"
        self.data.kubeconfig.rename(kubeconfig)
        wait_for(f"{name} is ready", lambda: self.ready(kubeconfig) == 200, READY_S)
        return kubeconfig

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    @staticmethod
    def ready(kubeconfig: Path) -> int:
        """The status of /readyz, without the check of controllers; 0 when nobody answers."""
        client = Client(kubeconfig, timeout_s=10)
        try:
            return client.http.get("/readyz", params={"exclude": "controllers"}).status_code
        except httpx.TransportError:
            return 0
        finally:
            client.close()

    def replace(self, name: str) -> None:
        """SIGTERM, and the next process at the same address when the first has ended."""
        self._running.signal(name, signal.SIGTERM)
        wait_for(f"{name} ends", lambda: name in self._running.ended(), 60)
        self.start(name)

    def log(self, name: str) -> str:
        return self._running.log(name, 40)

    def stop(self) -> None:
        self._running.stop(self._running.names(), within_s=30)


@contextmanager
def api_processes(folder: Path, *names: str, database_url: str = "") -> Iterator[tuple[ApiProcesses, list[Path]]]:
    """They, and their kubeconfigs."""
    processes = ApiProcesses(folder, database_url)
    try:
        yield processes, [processes.start(name) for name in names]
    finally:
        processes.stop()
