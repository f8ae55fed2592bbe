"""No part of a hub takes the others with it: its database, its leadership, a child that dies again and again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from fleet.cli.failure import Failure
from fleet.hub import supervise
from fleet.hub.supervise import DEATHS_MAX, Child, Supervisor
from fleet.values.files import append_private
from tests.chaos.parts import hit, process_of
from tests.cli.hub import Up, until

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("stays") / "hub")
    yield running
    assert running.stop() == 0, running.errors.read_text()


def pids(up: Up) -> dict[str, int]:
    return {name: up.child(name).pid for name in ("api", "controllers")}


def works(up: Up, name: str) -> None:
    """The API writes, and the controllers act: a new namespace gets its service account."""

    def made() -> bool:
        try:
            if up.hub.find(f"{NAMESPACES}/{name}") is None:
                up.hub.request("POST", NAMESPACES, {"metadata": {"name": name}})
            return up.hub.find(f"{NAMESPACES}/{name}/serviceaccounts/default") is not None
        except Failure:
            return False

    until(f"namespace {name} has its account", made, PATIENCE_S)


async def sql(up: Up, statement: str) -> Any:
    connection = await asyncpg.connect(f"postgresql://fleet@/fleet?host={up.folder / 'postgres'}")
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


EPOCH = "SELECT epoch FROM leaders WHERE name = 'controllers'"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"


def test_a_leader_that_loses_its_connection_stands_again_in_the_same_process(up: Up) -> None:
    works(up, "before")
    before, (row,) = pids(up), asyncio.run(sql(up, EPOCH))
    assert asyncio.run(sql(up, CUT))
    until("it leads again", lambda: asyncio.run(sql(up, EPOCH))[0]["epoch"] > row["epoch"], PATIENCE_S)
    works(up, "after-the-cut")
    assert pids(up) == before
    assert "stands for election again" in (up.folder / "logs" / "controllers.log").read_text()


def test_a_database_that_is_killed_comes_back_and_no_process_ends(up: Up) -> None:
    works(up, "before-the-kill")
    before, server = pids(up), hit(up.folder, "postgres", signal.SIGKILL)
    until(
        "another server runs",
        lambda: (found := process_of(up.folder, "postgres")) is not None and found.pid != server,
        PATIENCE_S,
    )
    works(up, "after-the-kill")
    assert pids(up) == before
    logs = [up.errors, *(up.folder / "logs").iterdir()]  # whoever of those that share it sees it first
    assert any("PostgreSQL is gone, starting it again" in log.read_text() for log in logs)


def test_a_child_that_dies_more_often_than_at_a_start_is_started_again_each_time(up: Up) -> None:
    for _ in range(DEATHS_MAX + 1):
        pid = up.child("api").pid
        os.kill(pid, signal.SIGKILL)
        until("the API is another", lambda pid=pid: _pid(up, "api") not in (None, pid), PATIENCE_S)
    works(up, "after-the-deaths")
    assert up.process.poll() is None
    said = [line for line in up.errors.read_text().splitlines() if "api ended with signal SIGKILL" in line]
    assert len(said) >= DEATHS_MAX + 1 and all("starting it again in" in line for line in said)
    assert {json.loads(line)["level"] for line in said} == {"warning"}


def _pid(up: Up, name: str) -> int | None:
    try:
        return up.child(name).pid
    except (StopIteration, psutil.Error):
        return None


# -- the supervisor alone, with a child that does what a test says


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What every child runs; it counts its starts in the file `starts` beside it."""
    path = tmp_path / "child.py"
    begun = asyncio.create_subprocess_exec

    async def run(*arguments: Any, **options: Any) -> Any:
        return await begun(sys.executable, str(path), **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", run)
    monkeypatch.setattr(supervise, "PAUSE_FIRST_S", 0.01)
    monkeypatch.setattr(supervise, "PAUSE_MAX_S", 0.05)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def starts(script: Path) -> int:
    return len(script.with_name("starts").read_text())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


COUNT = "import os, sys, pathlib\nstarts = pathlib.Path(__file__).with_name('starts')\n"
COUNT += "starts.open('a').write('x')\nnumber = len(starts.read_text())\n"
READY = "os.write(int(os.environ['FLEET_READY_FD']), b'ready\\n')\n"


async def test_a_child_that_was_never_ready_is_given_up_with_what_it_said(script: Path, tmp_path: Path) -> None:
    write(script, COUNT + "sys.exit('the port is taken')\n")
    supervisor = Supervisor([Child("api", [], tmp_path / "api.log")])
    supervisor.start()
    with pytest.raises(Failure, match=r"api died 5 times, last with exit status 1: the port is taken"):
        await supervisor.wait_ready(60)
    await supervisor.stop()
    assert mode(tmp_path / "api.log") == 0o600


async def test_a_child_that_was_ready_once_is_started_again_for_ever(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(script, COUNT + "if number == 1:\n    " + READY + "sys.exit('out of memory')\n")
    supervisor = Supervisor([Child("api", [], tmp_path / "api.log")])
    supervisor.start()
    await supervisor.wait_ready(60)
    async with asyncio.timeout(60):
        while starts(script) < DEATHS_MAX + 3:  # noqa: ASYNC110  # of another process
            await asyncio.sleep(0.02)
    assert not supervisor.failed.done()
    await supervisor.stop()
    assert capsys.readouterr().err.count("api ended with exit status 1; starting it again in") >= DEATHS_MAX + 2


async def test_a_child_that_cannot_be_started_is_tried_again(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(script, READY.join(["import os, time\n", "time.sleep(60)\n"]))
    failures = [OSError(28, "No space left on device"), OSError(12, "Cannot allocate memory")]

    def full(path: Path) -> Any:
        if failures:
            raise failures.pop()
        return append_private(path)

    monkeypatch.setattr(supervise, "append_private", full)
    supervisor = Supervisor([Child("api", [], tmp_path / "api.log")])
    supervisor.start()
    await supervisor.wait_ready(60)
    await supervisor.stop()


async def test_a_child_that_shows_no_life_is_killed_and_started_again(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one stops as with SIGSTOP; the second lives."""
    write(
        script,
        COUNT + "import signal, time\n" + READY + "if number == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "while True:\n    os.write(int(os.environ['FLEET_READY_FD']), b'alive\\n')\n    time.sleep(0.1)\n",
    )
    child = Child("api", [], tmp_path / "api.log")
    supervisor = Supervisor([child], hangs_s=2.0)
    supervisor.start()
    await supervisor.wait_ready(60)
    child.news.clear()
    await asyncio.wait_for(child.news.wait(), 60)
    assert starts(script) == 2
    await supervisor.stop()
    said = capsys.readouterr().err
    assert "api hangs: no sign of life for 2 s; killing it" in said and "api ended with signal SIGKILL" in said
