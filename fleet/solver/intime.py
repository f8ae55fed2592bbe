"""A solver that minds the time of the whole decision, not of its own part only.

A decision has no clock, and a limit for the solver alone does not keep the whole within anything: the same question
comes back several times, and between and after the answers gangs are packed and the plan is checked, which takes the
longer the more wait, and the busier the machine is. So whoever decides wraps the solver for one decision. What has
passed until the first question shows how fast this machine goes through this snapshot, so what is still to be done
after the last answer is taken to need as long, and half as long again; the solver gets what is left. The trade-off: a
plan of the same snapshot may be better on a faster machine. Its record holds the answers, and replays all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.placement.problem import Answer, Problem, Solver, VictimProblem

CYCLE_S = 2.7  # of a decision; goal 3 s
_REST = 1.5  # what is still to be done after the last answer, as a multiple of what was done before the first question
_LEAST_S = 0.5  # for the first question, come what may
_WORTH_S = 0.3  # less is not worth asking again for
_VICTIMS_S = 0.2  # for a question about victims, come what may


class InTime:
    """`solver` for one decision, which begins now, or did at `began`, and takes no longer than `cycle_s` if it can be
    helped. `clock`: seconds that only grow."""

    def __init__(
        self, solver: Solver, clock: Callable[[], float], *, cycle_s: float = CYCLE_S, began: float | None = None
    ) -> None:
        self._solver = solver
        self._clock = clock
        self._cycle_s = cycle_s
        self._began = clock() if began is None else began
        self._ahead: float | None = None  # what had passed when the first question came

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        """As the solver would, within what is left of the decision's time; not at all when that is too little."""
        passed = self._clock() - self._began
        first = self._ahead is None
        ahead = self._ahead = passed if self._ahead is None else self._ahead
        left = self._cycle_s - passed - _REST * ahead
        if isinstance(problem, VictimProblem):
            left = max(left, _VICTIMS_S)
        elif first:
            left = max(left, _LEAST_S)
        elif left < _WORTH_S:
            return Answer(why="no time is left in this decision")
        return self._solver.solve(problem, seed=seed, limit_s=min(limit_s, left))
