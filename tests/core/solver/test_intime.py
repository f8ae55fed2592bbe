"""The solver's part of a decision's time: the rest of it is provided for first."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.solver.cpsat import CpSat
from fleet.core.solver.intime import CYCLE_S, TimedSolver
from tests.builders import NOW, member, snapshot, tree, unit

QUESTION = Problem(bands=(), classes=(), lanes=(), quota=(), rooms=())
VICTIMS = VictimProblem(victims=(), sites=(), freed=(), places=(), demands=(), gangs=(), counts=())


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slow:
    """Takes all the time that it is given."""

    clock: Clock
    limits: list[float] = field(default_factory=list)

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        self.limits.append(limit_s)
        self.clock.now += limit_s
        return Answer((0,), (0,))


@pytest.mark.parametrize(
    "ahead,limit", [(0.0, 1.5), (0.4, 1.5), (0.6, CYCLE_S - 2.5 * 0.6), (1.0, 0.5), (9.0, 0.5)], ids=repr
)
def test_the_first_question_gets_what_packing_and_checking_will_leave(ahead: float, limit: float) -> None:
    clock = Clock()
    slow = Slow(clock)
    solver = TimedSolver(slow, clock)
    clock.now += ahead
    solver.solve(QUESTION, seed=1, limit_s=1.5)
    assert slow.limits == [pytest.approx(limit)]


def test_who_has_used_up_the_decisions_time_is_not_asked_again() -> None:
    clock = Clock()
    slow = Slow(clock)
    solver = TimedSolver(slow, clock)
    clock.now += 0.5
    said = [solver.solve(QUESTION, seed=1, limit_s=1.0) for _ in range(6)]
    assert clock.now - 100.0 == pytest.approx(CYCLE_S - 1.5 * 0.5)
    assert len(slow.limits) == 2
    assert [answer.empty for answer in said] == [False, False, True, True, True, True]
    assert said[-1].cause == Cause(CauseCode.NO_TIME)


def test_a_question_about_victims_is_always_asked() -> None:
    clock = Clock()
    slow = Slow(clock)
    solver = TimedSolver(slow, clock, began=clock.now - 60)
    solver.solve(VICTIMS, seed=1, limit_s=0.75)
    solver.solve(VICTIMS, seed=1, limit_s=0.1)
    assert slow.limits == [0.2, 0.1]


def test_a_decision_that_has_time_gets_the_plan_that_it_gets_without_a_limit() -> None:
    world = snapshot(
        unit("a").gpus(5).queue("root/ml").since(99),
        unit("b").gpus(8).queue("root/ml"),
        member("x").nodes(9),
        tree(ml={"jobs": 1}),
    )
    plan = decide(world, now=NOW, seed=1, solver=TimedSolver(CpSat(), Clock()))
    assert plan == decide(world, now=NOW, seed=1, solver=CpSat())
    assert [p.unit for p in plan.placements] == ["b"]
    assert not check(world, plan, now=NOW)
