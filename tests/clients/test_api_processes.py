"""Several API processes as one hub to its clients: replaced one after the other, and without their database."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from api.store.embedded import EmbeddedPostgres
from tests.bench.lag import measure
from tests.chaos.client import Client
from tests.clients.processes import ApiProcesses, api_processes
from tests.clients.program import telling
from tests.conftest import run_apart
from tests.testbed.processes import wait_for

MAPS = "/api/v1/namespaces/default/configmaps"


def test_no_write_is_lost_while_one_process_after_the_other_is_replaced(tmp_path: Path) -> None:
    with api_processes(tmp_path, "one", "two") as (processes, kubeconfigs):
        addresses = [processes.address(name) for name in ("one", "two")]
        with telling(kubeconfigs[0], "order", "replaced", *addresses) as story:
            story.until("ready")
            for name in ("one", "two", "one"):
                processes.replace(name)
            story.go_on()
            seen = story.until("order")
            story.finish()
    assert (seen["lost"], seen["backwards"], seen["reached"]) == ([], 0, True), seen
    assert seen["events"] == seen["writes"] > 100, seen


def test_a_watch_through_one_process_shows_in_order_what_another_took(tmp_path: Path) -> None:
    with api_processes(tmp_path, "one", "two") as (processes, kubeconfigs):
        found = asyncio.run(measure(processes, kubeconfigs, writers=4, seconds=2, pause_s=0.02))
    assert found.writes > 4 and found.disorder == 0, found
    assert found.max < 10_000, found


class Writer(threading.Thread):
    """Creates ConfigMaps through one client after the other. `acknowledged` are their names, `refused` the status and
    Retry-After of the other answers."""

    def __init__(self, clients: Sequence[Client]) -> None:
        super().__init__(daemon=True)
        self._clients, self._stop_writing = clients, threading.Event()
        self.acknowledged: list[str] = []
        self.refused: set[tuple[int, str | None]] = set()

    def run(self) -> None:
        for number in itertools.count():
            if self._stop_writing.is_set():
                return
            name = f"kept-{number}"
            client = self._clients[number % len(self._clients)]
            answer = client.http.post(MAPS, json={"metadata": {"name": name}})
            if answer.status_code == 201:
                self.acknowledged.append(name)
            else:
                self.refused.add((answer.status_code, answer.headers.get("retry-after")))

    def stop(self) -> None:
        self._stop_writing.set()
        self.join(120)

    def goes_on(self) -> None:
        """Wait for fifty writes more."""
        before = len(self.acknowledged)
        wait_for("writes", lambda: len(self.acknowledged) > before + 50)


def test_without_the_database_a_process_is_not_ready_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    database = EmbeddedPostgres(tmp_path / "postgres")
    run_apart(started(database))
    try:
        with api_processes(tmp_path, "one", "two", database_url=database.dsn) as (processes, kubeconfigs):
            clients = [Client(path, timeout_s=60) for path in kubeconfigs]
            writer = Writer(clients)
            writer.start()
            try:
                writer.goes_on()
                assert database.pid is not None
                os.kill(database.pid, signal.SIGKILL)
                wait_for("not ready", lambda: readiness(processes, kubeconfigs) == [503, 503], 60)
                wait_for("refusals", lambda: writer.refused, 60)
                run_apart(started(database))
                wait_for("ready again", lambda: readiness(processes, kubeconfigs) == [200, 200])
                writer.goes_on()
            finally:
                writer.stop()
            assert writer.refused == {(503, "1")}
            for client in clients:
                assert set(writer.acknowledged) <= {item["metadata"]["name"] for item in client.items(MAPS)}
                client.close()
    finally:
        run_apart(database.stop())


def readiness(processes: ApiProcesses, kubeconfigs: Sequence[Path]) -> list[int]:
    return [processes.ready(path) for path in kubeconfigs]


async def started(database: EmbeddedPostgres) -> None:
    """Nothing starts it again by itself: what would do so ends with this loop."""
    await database.start()
