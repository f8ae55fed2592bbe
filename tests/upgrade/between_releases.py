"""A hub of one release is killed, and the programs of another go on with its data: `make upgrade FROM=v0.1.0`.

Up from that release to this checkout, and down again; with the embedded database and an external one. Two members are
simulated by the hub's own process, and are killed with it. A third runs apart, behind an agent of the release that the
hub begins with; both outlive the hub. A watch is open all the time. Needs the history of the repository, so `make test`
has `test_recorded.py`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.client import CLUSTERS, Client
from tests.chaos.witness import Witness
from tests.cli.hub import Up, processes_of, until
from tests.e2e.agent import command_of, hide
from tests.testbed.processes import free_port
from tests.upgrade import story
from tests.upgrade.releases import OF_THIS_CHECKOUT, Programs, of_ref

FROM = os.environ.get("FLEET_UPGRADE_FROM", "v0.1.0")
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs of the release that `make upgrade` names."""
    return of_ref(FROM, tmp_path_factory.mktemp("release"))


class Edge:
    """A member behind an agent, both of these programs, as processes of their own."""

    def __init__(self, programs: Programs, hub: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        folder.mkdir()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start(programs.fleet, "sim", "--members", "1", "--nodes", "1", "--data-dir", folder / "sim")
        reached = folder / "sim" / "members" / "cfa.kubeconfig"
        until("the member serves", reached.exists)
        hidden = folder / "member.kubeconfig"
        address = hide(reached.read_text(), hidden)
        join: list[str | Path] = [programs.fleet, "join", story.EDGE, "--agent", "--kubeconfig", hidden]
        subprocess.run([*join, "--data-dir", hub, "-o", folder / "agent.yaml"], check=True, timeout=180)
        self._start(*command_of(folder, address, programs.fleet))

    def _start(self, *command: str | Path) -> None:
        with (self._folder / "log").open("a") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def stop(self) -> None:
        """Both must have run all the time."""
        assert [process.poll() for process in self._processes] == [None, None], (self._folder / "log").read_text()
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)


@pytest.fixture(params=["embedded", "external"])
def database(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """The options that name the database."""
    yield () if request.param == "embedded" else ("--database-url", request.getfixturevalue("empty_database_url"))


@pytest.mark.parametrize("direction", ["up", "down"])
def test_another_release_goes_on_with_the_data(
    other: Programs, direction: str, database: tuple[str, ...], tmp_path: Path
) -> None:
    old, new = (other, OF_THIS_CHECKOUT) if direction == "up" else (OF_THIS_CHECKOUT, other)
    data = tmp_path / "hub"
    options = (*story.SHAPE, *database, "--listen", f"127.0.0.1:{free_port()}")
    first = Up(data, *options, program=[str(old.fleet)])
    edge = Edge(old, data, tmp_path / "edge")
    client = Client(data / "kubeconfig")
    witness = Witness(data / "kubeconfig", story.COPIES)
    try:
        until("the agent is connected", lambda: ready(client, story.EDGE))
        witness.start()
        story.begin(client, edge=True)
        before = story.look(client, edge=True)
        until("the members have written it down", lambda: story.kept(data, before))
        first.process.kill()
        until("all of the hub is gone", lambda: processes_of(data) == [])
        if direction == "down" and newer_than(old, new):
            check_refused(new, data, *options)
            return
        second = Up(data, *options, program=[str(new.fleet)])
        try:
            assert client.get("/version")["gitVersion"].endswith(f"-fleet.{new.about()[0]}")
            story.go_on(client, before, edge=True)
            assert witness.resumed > 0
            witness.judge()
        finally:
            assert second.stop() == 0, second.errors.read_text()
    finally:
        first.process.kill()
        witness.stop()
        edge.stop()


def ready(client: Client, member: str) -> bool:
    conditions = client.get(f"{CLUSTERS}/{member}").get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def newer_than(one: Programs, other: Programs) -> bool:
    """Whether its schema is one that the other release does not work with: the last migration takes something away."""
    return one.about()[1] != other.about()[1] and one.about()[1].endswith("_post")


def check_refused(program: Programs, data: Path, *options: str) -> None:
    command: list[str | Path] = [program.fleet, "up", "--data-dir", data, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert f"of the release {OF_THIS_CHECKOUT.about()[0]}" in last and "fleet restore" in last
