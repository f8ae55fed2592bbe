"""A start that is promised as certain is one that the solver's plan makes, too; any other is only likely."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from fleet.core.decide import decide
from fleet.core.foresee.answer import StartAnswer
from fleet.core.foresee.certain import is_certain, starts
from fleet.core.foresee.change import UnitRelease, applied
from fleet.core.foresee.smallest import DECISIONS, smallest
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer as Solution
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.worlds import worlds

CONTENDED = snapshot(
    member("m").nodes(1),
    unit("u").gpus(5).since(300).having(held=True),
    unit("b1").gpus(4).since(60),
    unit("b2").gpus(4).since(30),
)
"""Once u is let go it is the first in line, and greedy decisions start it; the two others together use more GPUs."""

ALONE = snapshot(member("m").nodes(1), unit("u").gpus(5).having(held=True), unit("b1").gpus(3))


class Answers:
    """A solver that answers nothing, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Solution:
        self.asked += 1
        return Solution(cause=Cause(CauseCode.NO_TIME))


class Fails:
    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Solution:
        raise RuntimeError


def really(world: Snapshot, name: str, change: object) -> bool:
    after, now = applied(world, name, change, NOW) if change is not None else (world, NOW)  # type: ignore[arg-type]
    return starts(decide(after, now=now, seed=0, solver=CpSat()), name)


def test_a_change_after_which_the_solver_starts_others_instead_is_no_certain_one() -> None:
    answer = smallest(CONTENDED, "u", now=NOW, solver=CpSat())
    assert answer.changes == (UnitRelease("held"),) and answer.certain == frozenset()
    assert not really(CONTENDED, "u", UnitRelease("held"))


@pytest.mark.parametrize("solver", [None, CpSat(), Answers(), Fails()])
def test_a_change_after_which_there_is_nothing_to_ask_a_solver_is_certain_with_any_or_none(
    solver: Solver | None,
) -> None:
    answer = smallest(ALONE, "u", now=NOW, solver=solver)
    assert answer.changes == (UnitRelease("held"),) and answer.certain == {UnitRelease("held")}


@pytest.mark.parametrize("solver", [None, Answers(), Fails()])
def test_a_start_is_no_certain_one_while_a_question_to_the_solver_is_open(solver: Solver | None) -> None:
    answer = smallest(CONTENDED, "u", now=NOW, solver=solver)
    assert answer.changes == (UnitRelease("held"),) and answer.certain == frozenset()


def test_a_start_that_the_solver_confirms_is_certain_though_it_was_asked() -> None:
    """Room for one of two: a change of priority gives it to the unit, whatever the solver finds."""
    world = snapshot(
        member("m").nodes(2),
        unit("u").gpus(6).having(held=True).since(300),
        unit("b1").gpus(5).since(60),
        unit("b2").gpus(4).since(30),
    )
    assert smallest(world, "u", now=NOW, solver=None).certain == frozenset()
    assert smallest(world, "u", now=NOW, solver=CpSat()).certain == {UnitRelease("held")}
    assert really(world, "u", UnitRelease("held"))


def test_a_unit_that_starts_as_things_are_may_do_so_only_likely() -> None:
    let_go, _ = applied(CONTENDED, "u", UnitRelease("held"), NOW)
    assert smallest(let_go, "u", now=NOW, solver=CpSat()) == StartAnswer(True, None, decisions=2)
    assert not really(let_go, "u", None)
    alone, _ = applied(ALONE, "u", UnitRelease("held"), NOW)
    assert smallest(alone, "u", now=NOW) == StartAnswer(True, None, decisions=2, certain=frozenset({None}))


def test_the_bounds_of_a_search_hold_for_the_decisions_with_the_solver_too() -> None:
    spent = smallest(ALONE, "u", now=NOW, decisions=2, solver=CpSat())
    assert (spent.changes, spent.certain, spent.decisions) == ((UnitRelease("held"),), frozenset(), 2)
    asked = Answers()
    looks = iter([False, True])
    late = smallest(CONTENDED, "u", now=NOW, enough=lambda: next(looks), solver=asked)
    assert (late.changes, late.certain, late.decisions, asked.asked) == ((UnitRelease("held"),), frozenset(), 2, 0)


def test_a_proof_that_no_victims_suffice_is_an_answer() -> None:
    """Another unit may take back more than may leave; that the solver says so keeps no start from being certain."""
    world = snapshot(
        Config(reclaim=True, protection_s=0.0),
        tree(a={"min": {GPU: 8}}, b={}),
        member("m").nodes(2, free_gpu=0),
        member("n").nodes(1),
        unit("borrows").gpus(8).queue("root/b").runs_in("m"),
        unit("owner").gpus(8, pods=2).queue("root/a").only_in("m"),
        unit("u").gpus(8).having(held=True).only_in("n"),
    )
    answer = smallest(world, "u", now=NOW, solver=CpSat())
    assert answer.certain == {UnitRelease("held")}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(worlds())
def test_what_is_certain_is_started_by_the_solver_too(world: Snapshot) -> None:
    """With a solver at hand, and without one."""
    for name in sorted(decide(world, now=NOW, seed=0, solver=None).reasons)[:2]:
        for solver in (None, CpSat()):
            answer = smallest(world, name, now=NOW, solver=solver)
            assert answer.certain <= {*answer.changes, *([None] if answer.starts else [])}
            assert answer.decisions <= DECISIONS
            for change in answer.certain:
                assert really(world, name, change), change


def test_a_plan_without_the_unit_is_no_start() -> None:
    assert not is_certain(CONTENDED, "u", now=NOW, seed=0, solver=None)
