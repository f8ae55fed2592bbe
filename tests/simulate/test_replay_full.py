"""A replay through the real controllers on a virtual clock says what that of the core alone says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fleet.core.foresee.forward import Stop, UnitEventKind
from fleet.core.model.amounts import Amounts
from fleet.core.snapshot import Config
from fleet.simulate.replay import metrics, world
from fleet.simulate.replay.full import replay_fully
from fleet.simulate.replay.run import Options, ReplayResult, replay
from fleet.simulate.replay.trace import GPU, TraceJob, gang

HOUR = 3600.0
NODE = world.WorldNode("A", Amounts.of({GPU: 8, "cpu": 96_000, "memory": 512 << 30}))


def job(name: str, at: float, runs: float, gpus: int, queue: str = "a") -> TraceJob:
    return TraceJob(name, queue, at, runs, gpus, gang(gpus))


def both(jobs: list[TraceJob], nodes: int, quota: world.Quota, **options: Any) -> list[ReplayResult]:
    inventory = [NODE] * nodes
    tree = world.tree(jobs, inventory, quota)
    units = world.units(jobs, world.Arrivals(overestimate=None), 0)
    members = world.split(inventory, 2, 0)
    return [through(jobs, units, members, tree, Options(**options)) for through in (replay_fully, replay)]


INTERRUPTED = """
import gc, signal
from fleet.simulate.replay import world
from fleet.simulate.replay.full import replay_fully
from fleet.simulate.replay.run import Options
from tests.simulate.test_replay_full import HOUR, NODE, job

signal.signal(signal.SIGINT, signal.default_int_handler)
jobs = [job("a", 0, 60, 8), job("b", 60, HOUR, 8)]
tree, units = world.tree(jobs, [NODE], world.Quota()), world.units(jobs, world.Arrivals(), 0)
try:
    replay_fully(
        jobs, units, world.split([NODE], 1, 0), tree, Options(),
        progress=lambda ended: signal.raise_signal(signal.SIGINT),
    )
except KeyboardInterrupt:
    gc.collect()  # what nobody waited for complains when it goes
    print("interrupted")
"""


def test_a_replay_that_is_interrupted_leaves_nothing_behind_that_complains() -> None:
    """In a process of its own: what is interrupted is pytest otherwise, if the signal comes a second time."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:], done.stderr) == (0, ["interrupted"], "")


def stories(done: ReplayResult) -> dict[str, list[str]]:
    """By job, what happened to it."""
    found: dict[str, list[str]] = {}
    for event in done.log:
        found.setdefault(event.unit, []).append(event.what.value)
    return found


def test_gangs_queue_start_and_end_on_the_hub_as_in_the_core_alone() -> None:
    jobs = [
        job("a", 0, HOUR, 16),
        job("b", 60, HOUR, 4),
        job("c", 120, 2 * HOUR, 12),
        job("d", 180, HOUR, 8),
        job("e", 240, 600, 1),
    ]
    full, core = both(jobs, 4, world.Quota(guarantee=0.0), cycle_s=0.0)
    assert full.stopped is core.stopped is Stop.DONE
    assert stories(full) == stories(core)
    waits, expected = (
        {e.unit: e.at - done.arrivals[e.unit] for e in done.log if e.what is UnitEventKind.STARTED}
        for done in (full, core)
    )
    assert waits == pytest.approx(expected, abs=5.0)
    assert full.decisions >= 5


def test_owners_take_back_on_the_hub_and_what_was_evicted_goes_on_from_its_checkpoint() -> None:
    jobs = [
        job("b1", 0, 3 * HOUR, 16, "b"),
        job("b2", 60, 4 * HOUR, 16, "b"),
        job("a1", 5400, HOUR, 16, "a"),
    ]
    quota = world.Quota(min={"a": 16, "b": 0})
    full, core = both(jobs, 4, quota, cycle_s=0.0, config=Config(reclaim=True), checkpoint_s=HOUR)
    tree = world.tree(jobs, [world.WorldNode("A", Amounts.of({GPU: 8}))] * 4, quota)
    said = [metrics.report(done, tree, metrics.series(done, tree)) for done in (full, core)]
    for one in said:
        assert one["stopped"] == "DONE" and one["evictions"] == 1
        assert one["wait_s_by_leaf"]["a"]["max"] == pytest.approx(30, abs=5)
        assert one["lost_gpu_h"] == pytest.approx(16 * 0.5, abs=0.5), "half an hour since the last checkpoint"
    assert stories(full) == stories(core)
