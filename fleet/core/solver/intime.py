"""A solver with a limit for the whole decision, not for its own part only.

A decision has no clock, and a limit for one answer does not bound the decision. The question comes back several times,
and packing and checking take time between and after the answers. So the caller wraps the solver for one decision. The
time before the first question shows the speed of this machine on this snapshot. The work after the last answer is
assumed to need half as much again, and the solver gets the time between. The trade-off: a plan of the same snapshot may
be better on a faster machine. The record of a decision holds the answers, so it replays all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer
from fleet.core.placement.problem import Problem, Solver, VictimProblem

CYCLE_S = 2.7  # of a decision; goal 3 s
_REST = 1.5  # the time after the last answer, as a multiple of the time before the first question
_LEAST_S = 0.5  # for the first question, at the least
_WORTH_S = 0.3  # less is not worth asking again for
_VICTIMS_S = 0.2  # for a question about victims, at the least


class TimedSolver:
    """`solver` for one decision, which begins now, or began at `began`, and should take at most `cycle_s`. `clock`:
    seconds that only grow."""

    def __init__(
        self, solver: Solver, clock: Callable[[], float], *, cycle_s: float = CYCLE_S, began: float | None = None
    ) -> None:
        self._solver = solver
        self._clock = clock
        self._cycle_s = cycle_s
        self._began = clock() if began is None else began
        self._ahead: float | None = None  # the time before the first question

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        """The answer of the solver, within the rest of the decision's time; none, with its cause, if little is left."""
        passed = self._clock() - self._began
        first = self._ahead is None
        ahead = self._ahead = passed if self._ahead is None else self._ahead
        rest_s = self._cycle_s - passed - _REST * ahead
        if isinstance(problem, VictimProblem):
            rest_s = max(rest_s, _VICTIMS_S)
        elif first:
            rest_s = max(rest_s, _LEAST_S)
        elif rest_s < _WORTH_S:
            return Answer(cause=Cause(CauseCode.NO_TIME))
        return self._solver.solve(problem, seed=seed, limit_s=min(limit_s, rest_s))
