"""The solver's child process: the same answers, by their deadline, and no plan that fails for what becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.placement.problem import GangClass, GangKind, Lane, LimitRow, Problem
from fleet.core.snapshot import Config
from fleet.core.solver.cpsat import CpSat
from fleet.core.solver.process import ProcessSolver
from tests.builders import NOW
from tests.core.solver.traps import TRAP, TRAPS, better


@pytest.fixture(scope="module")
def child() -> Iterator[ProcessSolver]:
    solver = ProcessSolver()
    solver.warm()
    yield solver
    solver.close()


def ready(solver: ProcessSolver) -> None:
    """Wait until the child has answered something."""
    deadline = time.monotonic() + 60
    while decide(TRAP, now=NOW, seed=1, solver=solver).certificate.shipped != "cp-sat":
        assert time.monotonic() < deadline, "the child never came up"


PATIENCE_S = 30.0  # on a busy machine; without a deadline it would be for ever


def hard() -> Problem:
    """A problem that takes CP-SAT far longer than any test waits: many odd sizes, many rows, no gap allowed."""
    sizes = [1_000_003 + 7919 * ((index * index) % 997) for index in range(60)]
    classes = tuple(GangClass(GangKind(i, 0), 0, 50, size, 50) for i, size in enumerate(sizes))
    lanes = tuple(Lane(GangKind(i, 0), f"m{m}", 50, 0) for i in range(len(sizes)) for m in range(8))
    rooms = tuple(
        LimitRow(
            f"m{m}/{r}", 17_000_017, lanes=tuple((i * 8 + m, size + r * (i % 7) * 13) for i, size in enumerate(sizes))
        )
        for m in range(8)
        for r in range(3)
    )
    return Problem(("all",), classes, lanes, (), rooms, relative_gap=0.0, deterministic_limit=1e6)


def test_the_child_gives_the_same_plan_as_solving_here(child: ProcessSolver) -> None:
    ready(child)
    for story in TRAPS:
        world = replace(TRAPS[story][0], config=Config(solve_limit_s=60.0))
        here, there = better(world, CpSat()), better(world, child)
        assert (here.placements, here.certificate) == (there.placements, there.certificate)


def test_a_hard_problem_is_answered_by_its_deadline(child: ProcessSolver) -> None:
    ready(child)
    began = time.monotonic()
    answer = child.solve(hard(), seed=1, limit_s=1.0)
    assert time.monotonic() - began < PATIENCE_S
    assert answer.stages or answer.cause is not None
    ready(child)


def test_what_a_child_had_streamed_before_its_deadline_counts() -> None:
    script = (
        "import time\n"
        "from multiprocessing.connection import Connection\n"
        "from fleet.core.model.plan import Answer\n"
        "hub = Connection(0)\n"
        "for message in (True, (False, Answer((0, 1), (0, 1)))):\n"
        "    hub.send(message)\n"
        "time.sleep(600)\n"
    )
    solver = ProcessSolver([sys.executable, "-c", script])
    solver.warm()
    first = solver.pid
    plan = decide(replace(TRAP, config=Config(solve_limit_s=5.0)), now=NOW, seed=1, solver=solver)
    assert {p.unit for p in plan.placements} == {"b"}
    assert plan.certificate.shipped == "cp-sat"
    assert plan.certificate.why == "the solver was stopped at its deadline of 5 s"
    assert first is not None and not _alive(first)
    assert solver.pid not in (None, first), "the next problem finds a new one"
    solver.close()
    assert solver.pid is None


def test_a_child_stopped_in_the_middle_of_a_solve_does_not_hold_up_the_plan(child: ProcessSolver) -> None:
    ready(child)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    began = time.monotonic()
    plan = decide(TRAP, now=NOW, seed=1, solver=child)
    assert time.monotonic() - began < PATIENCE_S
    assert {p.unit for p in plan.placements} == {"a"}
    assert plan.certificate.why == "the solver was stopped at its deadline of 1.5 s"


def test_a_child_killed_in_the_middle_of_a_solve_leaves_greedy(child: ProcessSolver) -> None:
    ready(child)
    pid = child.pid
    assert pid is not None
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    answer = child.solve(hard(), seed=1, limit_s=20)
    killer.join()
    assert answer.cause == Cause(CauseCode.FAILED, {"detail": "exit status -9"})
    ready(child)
    assert child.pid != pid


def test_a_child_that_talks_nonsense_leaves_greedy() -> None:
    solver = ProcessSolver([sys.executable, "-c", "import os; os.write(0, b'\\0\\0\\0\\4nope'); input()"])
    plan = decide(TRAP, now=NOW, seed=1, solver=solver)
    assert plan.certificate.shipped == "greedy"
    assert plan.certificate.causes[0].code is CauseCode.FAILED
    solver.close()


def test_a_child_that_cannot_be_started_leaves_greedy() -> None:
    plan = decide(TRAP, now=NOW, seed=1, solver=ProcessSolver(["/there/is/no/such/program"]))
    assert plan.certificate.causes[0].code is CauseCode.FAILED


def test_the_child_ends_with_its_parent_even_while_it_solves() -> None:
    script = (
        "import os, sys, threading, time\n"
        "from tests.core.solver.test_solver_process import hard, ready\n"
        "from fleet.core.solver.process import ProcessSolver\n"
        "solver = ProcessSolver(); ready(solver)\n"
        "asked = {'seed': 1, 'limit_s': 100}\n"
        "threading.Thread(target=solver.solve, args=(hard(),), kwargs=asked, daemon=True).start()\n"
        "time.sleep(0.3); print(solver.pid, flush=True); os._exit(0)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=True).stdout
    pid, deadline = int(out), time.monotonic() + 10
    while _alive(pid):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
