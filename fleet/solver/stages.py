"""The stages of one solve, as both models run them, and the limits that bound them.

One worker, a fixed seed and a limit in deterministic time: the same problem gets the same answer. The limit in seconds
comes beside it, for a machine that is slower than expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ortools.sat.python import cp_model

from fleet.placement.problem import Solved

SAFE = 1 << 50  # the largest sum of a row that the solver gets: far below its 2^63
_SOLVED = (cp_model.OPTIMAL, cp_model.FEASIBLE)


class Limit:
    """The rest of a limit in seconds: by the clock, if there is one, so that building a model counts; else less the
    time that the solver reports."""

    def __init__(self, limit_s: float, clock: Callable[[], float] | None) -> None:
        self._left_s = limit_s
        self._clock = clock
        self._ends = limit_s + clock() if clock is not None else 0.0

    @property
    def left_s(self) -> float:
        return self._left_s if self._clock is None else self._ends - self._clock()

    def spend(self, seconds: float) -> None:
        self._left_s -= seconds


class Stages:
    """The stages of a model so far (`told`), and the limits that are left: seconds, and deterministic time (`work`)."""

    def __init__(self, model: cp_model.CpModel, seed: int, limit: Limit, work: float) -> None:
        self.told: list[Solved] = []
        self.provisional: list[cp_model.Constraint] = []
        """Constraints that hold if the known answer is feasible. All are lifted once the model shows that it is not."""
        self._model = model
        self._seed = seed
        self._limit = limit
        self.work = work

    def run(
        self, name: str, hint: Iterable[tuple[cp_model.IntVar, int]], left_s: float, work: float, **parameters: float
    ) -> cp_model.CpSolver | None:
        """Solve the model with its present objective, from `hint` on, and note the stage. None without an answer."""
        left_s = min(left_s, self._limit.left_s)
        if self.work <= 0 or left_s <= 0:
            self.told.append(Solved(name, 0, 0, "SKIPPED"))
            return None
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in hint:
            self._model.add_hint(variable, value)
        solver = cp_model.CpSolver()
        settings = {"num_workers": 1, "random_seed": self._seed % (1 << 31), "max_deterministic_time": work}
        for key, setting in (settings | {"max_time_in_seconds": left_s} | parameters).items():
            setattr(solver.parameters, key, setting)
        status, took = self._solved(solver)
        if status == cp_model.INFEASIBLE and self.provisional:
            for constraint in self.provisional:
                constraint.proto.linear.domain[0] = 0
            solver.parameters.max_time_in_seconds = max(0.0, self._limit.left_s)
            status, more = self._solved(solver)
            took += more
        found = status in _SOLVED
        value, bound = (round(solver.objective_value), round(solver.best_objective_bound)) if found else (0, 0)
        self.told.append(Solved(name, value, bound, solver.status_name(status), round(took, 4)))
        return solver if found else None

    def _solved(self, solver: cp_model.CpSolver) -> tuple[cp_model.CpSolverStatus, float]:
        """The status, and the seconds that it took."""
        status = solver.solve(self._model)
        self._limit.spend(solver.wall_time)
        self.work -= solver.response_proto.deterministic_time
        return status, solver.wall_time
