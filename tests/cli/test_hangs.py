"""A part of a hub that hangs: people are told, `fleet up` starts it again, and every line of every log is JSON."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.amc.get import CLUSTERS
from tests.cli.hub import Up, fleet, until
from tests.slow import repeated

HANGS_S = 10
pytestmark = pytest.mark.xdist_group("hangs")  # one hub for all of them


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("hangs") / "hub", "--members", "1", "--hang-seconds", str(HANGS_S))
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def lives(up: Up, name: str, stopped: int) -> bool:
    """Whether another process runs in its place."""
    try:
        return up.child(name).pid != stopped
    except (StopIteration, psutil.Error):
        return False


def well(up: Up) -> bool:
    return fleet("status", "--data-dir", str(up.folder)).returncode == 0


def shown(up: Up) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet("status", "-o", "json", "--data-dir", str(up.folder)).stdout)
    return found


def test_a_hub_that_works_says_so(up: Up) -> None:
    until("the hub is well", lambda: well(up))
    done = fleet("status", "--data-dir", str(up.folder))
    said = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line and not line.startswith(" "))
    assert said["Healthy"].strip() == "yes" and said["Members"].strip() == "1 of 1 ready"
    assert f"-{up.child('controllers').pid} for " in said["Leader"]
    until("the decider has looked", lambda: bool(shown(up)["looked"]))
    assert shown(up)["healthy"] is True


@pytest.mark.parametrize("name", repeated(["api", "controllers", "sim"], short=["controllers"]))
def test_a_part_that_is_stopped_is_started_again(up: Up, name: str) -> None:
    until("the hub is well", lambda: well(up))
    stopped = up.child(name).pid
    os.kill(stopped, signal.SIGSTOP)
    until(f"another {name} runs", lambda: lives(up, name, stopped))
    assert f"{name} hangs: no sign of life for {HANGS_S} s; killing it" in up.errors.read_text()
    until("the hub is well", lambda: well(up))


def test_a_simulated_member_that_started_again_is_the_same_cluster(up: Up) -> None:
    def spec() -> dict[str, Any]:
        return dict((up.hub.find(f"{CLUSTERS}/cfa") or {})["spec"])

    before = spec()
    up.child("sim").kill()
    until("it is joined at its new address", lambda: spec()["apiEndpoint"] != before["apiEndpoint"])
    until("the hub is well", lambda: well(up))
    assert spec()["id"] == before["id"]


def test_every_line_on_stderr_and_in_the_logs_is_json(up: Up) -> None:
    for name in ("sim", "controllers", "api"):
        killed = up.child(name)
        killed.kill()
        until(f"another {name} runs", lambda name=name, pid=killed.pid: lives(up, name, pid))
    until("the hub is well", lambda: well(up))
    logs = [up.errors, *(up.folder / "logs").iterdir()]
    lines = [(path, line) for path in logs for line in path.read_text().splitlines()]
    assert len(lines) > 5
    for path, line in lines:
        said = json.loads(line)
        assert {"event", "level"} <= set(said), (path, line)


def test_without_controllers_people_are_told(tmp_path: Path) -> None:
    hub = Up(tmp_path / "hub", "--hang-seconds", "0")
    stopped = hub.child("controllers")
    try:
        stopped.suspend()
        where = ("--data-dir", str(hub.folder))
        until("it is told", lambda: fleet("status", *where).returncode == 1)
        assert "nobody decides since" in fleet("status", *where).stdout
        assert fleet("jobs", *where).stderr.startswith("fleet: nobody decides since ")
        assert hub.hub.client.get("/readyz").status == 503
        assert hub.hub.client.get("/readyz?exclude=controllers").ok and hub.hub.client.get("/livez").ok
        stopped.resume()
        until("it works again", lambda: fleet("status", *where).returncode == 0)
    finally:
        stopped.resume()
        assert hub.stop() == 0
