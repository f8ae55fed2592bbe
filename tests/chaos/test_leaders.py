"""Two processes that could lead: one does; stopped long enough it is replaced, and woken it changes nothing (I11)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.client import ALL_JOBS, JOBS, Client
from tests.chaos.conftest import StartHub
from tests.chaos.parts import process_of
from tests.chaos.witness import Witness
from tests.chaos.work import Copies, delete_all, expect_all, set_up, states
from tests.e2e.hub import BIN
from tests.e2e.manifests import leaf, pytorchjob
from tests.testbed.processes import wait_for

pytestmark = pytest.mark.xdist_group("chaos")


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes started by the test; they end with it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait(10)


def test_a_leader_that_was_stopped_is_replaced_and_changes_nothing_when_it_wakes(
    start_hub: StartHub, standby: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    world = start_hub("--members", "2", members=("cfa", "cfb"))
    data = world.hub.folder
    client = Client(world.hub.kubeconfig)
    set_up(client, leaf("a", "a"))
    client.post(JOBS.format("a"), pytorchjob("before", workers=1))
    expect_all(world, client, ["a/before"], "Running")
    log = tmp_path / "standby.log"
    with log.open("wb") as output:
        command = [str(BIN / "fleet"), "controllers", "--data-dir", str(data)]
        standby.append(subprocess.Popen(command, stdout=output, stderr=output))
    witness = Witness(world.hub.kubeconfig, ALL_JOBS)
    witness.start()
    copies = Copies(world)
    copies.start()
    leader = process_of(data, "controllers")
    assert leader is not None and leader.pid != standby[0].pid
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        client.post(JOBS.format("a"), pytorchjob("while", workers=1))
        expect_all(world, client, ["a/while"], "Running")  # the standby has taken over
        assert "shows no life" in log.read_text()
        client.delete(f"{JOBS.format('a')}/before")
        client.post(JOBS.format("a"), pytorchjob("after", workers=1, run_for="1s"))
        expect_all(world, client, ["a/after"], "Succeeded")
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    woken = data / "logs" / "controllers.log"
    wait_for("the old leader stands by", lambda: "stands for election again" in woken.read_text())
    assert leader.is_running()
    assert standby[0].poll() is None, log.read_text()
    copies.stop()
    assert copies.double == []
    assert {name: len(uids) for name, uids in copies.ever.items()} == {"a/before": 1, "a/while": 1, "a/after": 1}
    witness.judge()
    found = states(client)
    assert (found["a/while"], found["a/after"]) == ("Running", "Succeeded")
    delete_all(world, client)
