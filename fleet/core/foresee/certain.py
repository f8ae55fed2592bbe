"""Whether a start is certain: a greedy decision starts the unit, and the decision with the solver does so, too.

The controllers decide with a solver, whose plan may start other units in the same room. So a start that greedy
decisions find is certain only after a decision with a solver. Without a solver at hand, a start is certain where the
decision has no question for one: the plan is then the same with every solver.
"""

from __future__ import annotations

from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.reason import Code
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.snapshot import Snapshot

_INFEASIBLE = "INFEASIBLE"


def starts(plan: Plan, unit: str) -> bool:
    """Whether a plan starts the unit: now, or as soon as its victims have left."""
    if any(placement.unit == unit for placement in plan.placements):
        return True
    reason = plan.reasons.get(unit)
    return reason is not None and reason.code is Code.ROOM_CLAIMED


def preempted(plan: Plan, unit: str) -> int:
    """The number of units that leave so that the unit starts."""
    return sum(eviction.preemptor == unit for eviction in plan.evictions)


def is_certain(snapshot: Snapshot, unit: str, *, now: float, seed: int, solver: Solver | None) -> bool:
    """Whether the solver's plan for the snapshot starts the unit. False, too, where a question to the solver has no
    answer: for lack of time, or of a solver. Each question may take the `solve_limit_s` of the snapshot."""
    heard = _CountedSolver(solver)
    plan = decide(snapshot, now=now, seed=seed, solver=heard)
    return heard.questions == heard.answers and starts(plan, unit)


class _CountedSolver:
    """A solver, or none, with the numbers of its questions and of its answers."""

    def __init__(self, solver: Solver | None) -> None:
        self._solver = solver
        self.questions = self.answers = 0

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        self.questions += 1
        if self._solver is None:
            return Answer(cause=Cause(CauseCode.NOT_ASKED))
        answer = self._solver.solve(problem, seed=seed, limit_s=limit_s)
        none_exists = bool(answer.stages) and answer.stages[-1].status == _INFEASIBLE
        self.answers += (not answer.empty or none_exists) and answer.cause is None  # cut short, it is no last word
        return answer
