"""Two processes that could lead: one does; stopped or held long enough it is replaced, and woken it changes nothing
(I11)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.chaos.client import ALL_JOBS, JOBS, Client
from tests.chaos.conftest import StartHub
from tests.chaos.parts import process_of
from tests.chaos.rig import LEASE
from tests.chaos.skewed import hold_file
from tests.chaos.witness import Witness
from tests.chaos.work import Copies, delete_all, expect_all, set_up, states
from tests.e2e.hub import BIN, World
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
    data, log = world.hub.folder, tmp_path / "standby.log"
    with log.open("wb") as output:
        command = [str(BIN / "fleet"), "controllers", "--data-dir", str(data)]
        standby.append(subprocess.Popen(command, stdout=output, stderr=output))
    leader = process_of(data, "controllers")
    assert leader is not None and leader.pid != standby[0].pid

    @contextmanager
    def stopped() -> Iterator[None]:
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(leader.pid, signal.SIGCONT)

    judge(world, stopped, old=data / "logs" / "controllers.log", new=log)
    assert leader.is_running()
    assert standby[0].poll() is None, log.read_text()


@pytest.mark.slow  # the lease fences it as it fences the leader that was stopped
def test_a_leader_whose_event_loop_is_held_is_replaced_and_changes_nothing_when_it_turns(
    start_hub: StartHub, standby: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Its threads go on meanwhile, that which shows life included."""
    world = start_hub("--members", "2", "--hang-seconds", "0", members=("cfa", "cfb"))
    data, log, clock = world.hub.folder, tmp_path / "first.log", tmp_path / "ahead"
    clock.write_text("0")
    with log.open("wb") as output:
        command = [sys.executable, "-m", "tests.chaos.skewed", str(clock), "controllers", "--data-dir", str(data)]
        first = subprocess.Popen(command, stdout=output, stderr=output)
    standby.append(first)
    client = Client(world.hub.kubeconfig)

    def leader() -> int:
        return int(client.get(LEASE)["spec"]["holderIdentity"].rpartition("-")[2])

    other = leader()
    os.kill(other, signal.SIGSTOP)
    wait_for("the process of the test leads", lambda: leader() == first.pid)
    os.kill(other, signal.SIGCONT)

    @contextmanager
    def held() -> Iterator[None]:
        file = hold_file(clock)
        file.touch()
        first.send_signal(signal.SIGUSR2)
        try:
            yield
        finally:
            file.unlink()

    judge(world, held, old=log, new=data / "logs" / "controllers.log")
    assert first.poll() is None, log.read_text()
    client.close()


def judge(world: World, halted: Callable[[], AbstractContextManager[None]], *, old: Path, new: Path) -> None:
    """Jobs go on while the leader is halted; awake, it stands by and has changed nothing. `old`, `new`: the logs of
    this leader and of the next."""
    client = Client(world.hub.kubeconfig)
    set_up(client, leaf("a", "a"))
    client.post(JOBS.format("a"), pytorchjob("before", workers=1))
    expect_all(world, client, ["a/before"], "Running")
    witness = Witness(world.hub.kubeconfig, ALL_JOBS)
    witness.start()
    copies = Copies(world)
    copies.start()
    with halted():
        client.post(JOBS.format("a"), pytorchjob("while", workers=1))
        expect_all(world, client, ["a/while"], "Running")  # the standby has taken over
        assert "shows no life" in new.read_text()
        client.delete(f"{JOBS.format('a')}/before")
        client.post(JOBS.format("a"), pytorchjob("after", workers=1, run_for="1s"))
        expect_all(world, client, ["a/after"], "Succeeded")
    wait_for("the old leader stands by", lambda: "stands for election again" in old.read_text())
    copies.stop()
    assert copies.double == []
    assert {name: len(uids) for name, uids in copies.ever.items()} == {"a/before": 1, "a/while": 1, "a/after": 1}
    witness.judge()
    found = states(client)
    assert (found["a/while"], found["a/after"]) == ("Running", "Succeeded")
    delete_all(world, client)
