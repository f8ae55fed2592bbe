"""The decider's child process: the same plans, at their deadline or not at all, and never for ever."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.controllers.decide.decider import Decider, Resort
from fleet.controllers.decide.differences import (
    IDS_MOST,
    UNITS_MOST,
    SnapshotReceiver,
    SnapshotSender,
    merged,
    regrouped,
)
from fleet.controllers.decide.process import TRIAL_LEAST_S, DeciderFailure, DecisionTooLong, ProcessDecider
from fleet.core.decide import PARTS, BadSnapshot, decide
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.notation.codec import encode_plan
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.snapshot import Config, Snapshot, SnapshotChanges
from fleet.core.solver.cpsat import CpSat
from tests.bench.decide import changes, world
from tests.builders import NOW, member, snapshot, unit
from tests.controllers.decide.standins import command
from tests.core.check.reclaims import contested
from tests.core.decide.commitment import committed
from tests.core.solver.traps import TRAP, TRAPS
from tests.worlds import worlds

ENDS_S = 60.0  # on a busy machine; without a deadline it would be for ever
LIMIT_S = 3.0


@pytest.fixture(scope="module")
def child() -> Iterator[ProcessDecider]:
    decider = ProcessDecider()
    decider.warm()
    yield decider
    decider.close()


Makes = Callable[..., ProcessDecider]


@pytest.fixture
def standin() -> Iterator[Makes]:
    made: list[ProcessDecider] = []

    def make(*words: str, limit_s: float = LIMIT_S) -> ProcessDecider:
        made.append(ProcessDecider(command(*words), limit_s))
        return made[-1]

    yield make
    for decider in made:
        decider.close()


class Recorded:
    """Asks CP-SAT, and gives the same answers to the same questions once more."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, Answer]] = []
        self.again: list[tuple[object, Answer]] | None = None

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        if self.again is None:
            self.asked.append(((problem, seed, limit_s), CpSat().solve(problem, seed=seed, limit_s=limit_s)))
            return self.asked[-1][1]
        question, answer = self.again.pop(0)
        assert question == (problem, seed, limit_s)
        return answer


def same(child: ProcessDecider, snapshot: Snapshot, *, solved: bool) -> Plan:
    """The plan, which is the same here and there, the answers of the solver included."""
    solver = Recorded() if solved else None
    marks: list[str] = []
    here = decide(snapshot, now=NOW, seed=7, solver=solver)
    if solver is not None:
        solver.again = list(solver.asked)
    there = child.decide(snapshot, now=NOW, seed=7, solver=solver, mark=marks.append)
    assert here == there
    assert encode_plan(here) == encode_plan(there)
    assert solver is None or solver.again == []
    assert marks == list(PARTS)
    return here


def call(child: ProcessDecider, snapshot: Snapshot, solver: Solver | None = None) -> Plan:
    return child.decide(snapshot, now=NOW, seed=7, solver=solver)


def named(*names: str) -> Snapshot:
    return snapshot(member("x").nodes(1), *(unit(name) for name in names))


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    first=st.one_of(worlds(), st.integers(0, 10_000).map(lambda seed: contested(random.Random(seed)))),
    solved=st.booleans(),
)
def test_random_worlds_one_after_the_other_get_the_same_plans(
    child: ProcessDecider, first: Snapshot, solved: bool
) -> None:
    plan = same(child, first, solved=solved)
    same(child, committed(first, plan), solved=solved)


@pytest.mark.parametrize("story", TRAPS)
def test_what_the_solver_improves_comes_out_the_same(child: ProcessDecider, story: str) -> None:
    same(child, TRAPS[story][0], solved=True)


def test_a_fleet_that_changes_gets_the_same_plans_from_the_differences_alone(child: ProcessDecider) -> None:
    now = world(3 * UNITS_MOST, 4, 40, seed=3)
    sent = child.piece_count
    same(child, now, solved=False)
    assert child.piece_count - sent == 3 + 4 + 1  # units, members, and the rest
    sent = child.piece_count
    few = SnapshotChanges(put_units=tuple(replace(now.units[key], priority=7) for key in sorted(now.units)[:20]))
    now = now.apply(few)
    same(child, now, solved=False)
    same(child, now, solved=False)
    assert child.piece_count - sent == 2
    for seed in range(3):
        now = now.apply(changes(now, seed))
        same(child, now, solved=False)
    less = replace(
        now, units=dict(list(now.units.items())[::2]), members=dict(list(now.members.items())[1:]), tree=None
    )
    same(child, less, solved=False)
    same(child, Snapshot(), solved=False)


def test_a_receiver_shares_what_is_equal_and_keeps_its_index() -> None:
    sender, receiver = SnapshotSender(), SnapshotReceiver()

    def sent(snapshot: Snapshot) -> Snapshot:
        for piece in sender.pieces(snapshot):
            receiver.take(pickle.loads(pickle.dumps(piece)))
        return receiver.snapshot()

    first = world(2 * UNITS_MOST, 2, 10, seed=1)
    there = sent(first)
    assert there == first
    assert len({id(one.components) for one in there.units.values()}) == len(
        {one.components for one in first.units.values()}
    )
    index = there.backlog
    key = min(first.units)
    second = first.apply(SnapshotChanges(put_units=(replace(first.units[key], priority=8),)))
    again = sent(second)
    assert again == second
    assert [one for key, one in again.units.items() if there.units[key] is not one] == [again.units[key]]
    unchanged = [lot for lot, kept in again.backlog.lots.items() if index.lots.get(lot) is kept]
    assert len(unchanged) >= len(index.lots) - 2
    assert sent(Snapshot()) == Snapshot()


def test_parts_that_nobody_has_any_more_are_not_kept_for_ever() -> None:
    sender, receiver = SnapshotSender(), SnapshotReceiver()
    for number in range(4):
        units = (unit(f"u{number}").having(preferences=((f"m{number}-{index}", 1),)) for index in range(600))
        now = Snapshot.of(replace(one.value, id=f"u{index}") for index, one in enumerate(units))
        for piece in sender.pieces(now):
            receiver.take(piece)
        assert receiver.snapshot() == now
    assert len(sender._numbers) <= 2 * 600 + 1_000 + 600


def test_reasons_come_in_pieces_and_only_where_they_differ() -> None:
    held, failed = Reason(Code.HELD), Reason(Code.DECIDER_FAILED, {"error": "e", "until": "u"})
    before = {f"u{number}": held for number in range(3 * IDS_MOST)}
    now = {key: replace(held) for key in before} | {"u1": failed, "new": failed}
    assert list(regrouped(before, now)) == [[(failed, ["u1", "new"])]]
    pieces = list(regrouped({}, now))
    assert all(sum(len(keys) for _, keys in piece) <= 2 * IDS_MOST for piece in pieces)
    assert len(pieces) >= 3
    found: dict[str, Reason] = {}
    for piece in pieces:
        merged(found, piece)
    assert found == now


def test_a_bug_is_the_same_exception_here_and_says_where_it_was(standin: Makes) -> None:
    decider = standin("by_units")
    with pytest.raises(KeyError, match="a bug") as caught:
        call(decider, named("breaks"))
    assert "standins.py" in caught.value.__notes__[0] and "in by_units" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Unportable: p is not on n"):
        call(decider, named("breaks oddly"))
    pid = decider.pid
    assert call(decider, named("a")) == decide(named("a"), now=NOW, seed=7, solver=None)
    assert decider.pid == pid


def test_a_snapshot_that_contradicts_itself_is_refused_with_its_problems(child: ProcessDecider) -> None:
    one = Unit("u", "u", (), None)
    for bad in (
        Snapshot(units={"u": replace(one, phase=Phase.PLACED)}),
        Snapshot(units={"v": one}),
        Snapshot(config=Config(claim_s=-1)),
    ):
        with pytest.raises(BadSnapshot) as caught:
            call(child, bad)
        assert caught.value.problems == bad.problems() != ()
    same(child, TRAP, solved=False)


def test_an_exception_of_the_solver_reaches_the_caller(child: ProcessDecider) -> None:
    class Broken:
        def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(child, TRAP, Broken())
    same(child, TRAP, solved=True)


def test_a_decision_that_does_not_end_is_ended_twice_and_the_next_is_made(standin: Makes) -> None:
    decider = standin("by_units")
    call(decider, named("a"))  # so that a second try has less time
    with pytest.raises(DecisionTooLong, match=f"it takes too long to decide about: no plan after {LIMIT_S:g} s"):
        call(decider, named("hangs"))
    assert call(decider, named("a")).placements


def test_a_process_that_was_slow_once_is_replaced_and_nobody_is_told(standin: Makes, tmp_path: Path) -> None:
    decider = standin("once", str(tmp_path / "seen"))
    assert call(decider, named("a")).placements


def test_a_process_that_dies_while_it_decides_is_replaced_once(standin: Makes) -> None:
    decider = standin("by_units")
    assert call(decider, named("a")).placements
    assert decider.pid is not None
    os.kill(decider.pid, signal.SIGKILL)
    assert call(decider, named("a", "b")).placements
    with pytest.raises(DeciderFailure, match="exit status -9"):
        call(decider, named("dies"))
    assert call(decider, named("a")).placements


@pytest.mark.parametrize(
    "said",
    ["os.write(0, b'\\0\\0\\0\\4nope')", "hub.send('hello')", "hub.send('ready'); hub.send(('plan', 7))"],
)
def test_a_process_that_talks_nonsense_makes_no_plan(said: str) -> None:
    script = f"import os, time; from multiprocessing.connection import Connection; hub = Connection(0); {said}"
    script += "; time.sleep(60)"  # it is ended before, and reads nothing of what comes
    decider = ProcessDecider([sys.executable, "-c", script])
    with pytest.raises(DeciderFailure, match="sent nonsense"):
        call(decider, named("a"))
    decider.close()


def test_a_process_that_cannot_be_started_makes_no_plan() -> None:
    with pytest.raises(DeciderFailure, match=r"cannot be started .*No such file"):
        call(ProcessDecider(["/there/is/no/such/program"]), named("a"))


def test_closing_ends_the_decision_that_is_made(standin: Makes) -> None:
    decider = standin("by_units", limit_s=600.0)
    caught: list[BaseException] = []

    def decides() -> None:
        try:
            call(decider, named("hangs"))
        except DeciderFailure as error:
            caught.append(error)

    thread = threading.Thread(target=decides)
    thread.start()
    while not decider.piece_count:
        time.sleep(0.02)
    decider.close()
    thread.join(ENDS_S)
    assert caught and not thread.is_alive()


def test_a_leader_that_leads_no_more_lets_go_of_its_decision(standin: Makes) -> None:
    process = standin("by_units", limit_s=600.0)
    decider = Decider(time.monotonic, process.decide, process.trial)
    caught: list[BaseException] = []

    def decides() -> None:
        try:
            decider.decide(named("hangs", "a"), now=10.0, solver=None, mark=lambda part: None)
        except DeciderFailure as error:
            caught.append(error)

    thread = threading.Thread(target=decides)
    thread.start()
    while not process.piece_count:
        time.sleep(0.02)
    decider.ended = True
    process.interrupt()
    thread.join(ENDS_S)
    assert caught and not thread.is_alive()
    assert call(process, named("a")).placements, "the next leader has the process"


def test_the_child_ends_with_its_parent_even_while_it_decides() -> None:
    script = (
        "import os, threading, time\n"
        "from tests.controllers.decide.test_process import ProcessDecider, call, command, named\n"
        "decider = ProcessDecider(command('by_units'))\n"
        "call(decider, named('a')); sent = decider.piece_count\n"
        "threading.Thread(target=call, args=(decider, named('hangs')), daemon=True).start()\n"
        "while decider.piece_count == sent: time.sleep(0.02)\n"
        "print(decider.pid, flush=True); os._exit(0)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=True).stdout
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(out)).wait(ENDS_S)


def test_the_unit_that_holds_decisions_is_found_and_left_out_and_the_others_are_decided(standin: Makes) -> None:
    process = standin("by_units")
    decider = Decider(time.monotonic, process.decide, process.trial)
    names = [f"u{number}" for number in range(6)]

    def decided(snapshot: Snapshot) -> Any:
        return decider.decide(decider.without_aside(snapshot, 10.0), now=10.0, solver=None, mark=lambda part: None)

    assert decided(named(*names)).plan is not None
    found = decided(named(*names, "hangs"))
    assert (found.plan, found.resort, [unit.id for unit in found.left_out]) == (None, Resort.LEFT_OUT, ["hangs"])
    assert "DecisionTooLong: it takes too long to decide about" in str(decider.aside["hangs"].reason.numbers["error"])
    again = decided(named(*names, "hangs"))
    assert again.fault is None and again.plan is not None


def test_a_trial_takes_as_long_as_decisions_lately_did_some_times_over(child: ProcessDecider) -> None:
    assert ProcessDecider(limit_s=2.0).trial_s == 2.0
    for _ in range(3):
        same(child, TRAP, solved=False)
    limit_s = child.trial_s
    assert limit_s >= TRIAL_LEAST_S
    child.trial(TRAP, now=NOW, seed=7, solver=None)
    assert child.trial_s == limit_s, "trials are about fewer units, and do not count"
