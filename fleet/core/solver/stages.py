"""The stages of one solve, as both models run them, and the limits that bound them.

One worker, a fixed seed and a limit in deterministic time: the same problem gets the same answer. The limit in seconds
comes beside it, for a machine that is slower than expected. The building of the model counts in it, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import gcd, inf

from ortools.sat.python import cp_model

from fleet.core.model.plan import Stage

_SAFE = 1 << 50  # the largest sum of a row that the solver gets: far below its 2^63
_SOLVED = (cp_model.OPTIMAL, cp_model.FEASIBLE)


def scaled(terms: Sequence[tuple[int, int]], room: int) -> tuple[list[int], int]:
    """The amounts and the room of a row Σ amount × x ≤ room as numbers that the solver can add up. `terms`: (amount,
    largest x). Dividing by the common divisor is exact; beyond that amounts are rounded up and the room down, so that
    no answer exceeds the row."""
    common = gcd(*(amount for amount, _ in terms)) or 1
    largest = max(abs(room), sum(abs(amount) * max(1, cap) for amount, cap in terms)) // common
    divisor = common * max(1, -(-largest // _SAFE))
    return [-(-amount // divisor) for amount, _ in terms], room // divisor


class Stages:
    """The stages of a model so far (`entries`), and the limits that are left: seconds, and deterministic time
    (`work`)."""

    def __init__(self, model: cp_model.CpModel, seed: int, limit_s: float, work: float) -> None:
        self.entries: list[Stage] = []
        self.provisional: list[cp_model.Constraint] = []
        """Constraints that hold if the known answer is feasible. All are lifted once the model shows that it is not."""
        self.work = work
        self._model = model
        self._seed = seed
        self._ends = time.monotonic() + limit_s

    def at_most(
        self, row: Iterable[tuple[cp_model.IntVar, int]], room: int, unless: Sequence[cp_model.LinearExprT] = ()
    ) -> cp_model.Constraint:
        """Add Σ amount × variable ≤ room. A row is lifted, as far as it can be exceeded, if one of `unless` is 1."""
        terms = [(variable, amount) for variable, amount in row if amount]
        caps = [variable.proto.domain[1] for variable, _ in terms]
        amounts, room = scaled([(amount, cap) for (_, amount), cap in zip(terms, caps, strict=True)], room)
        total = sum(amount * variable for amount, (variable, _) in zip(amounts, terms, strict=True))
        over = max(0, sum(amount * cap for amount, cap in zip(amounts, caps, strict=True)) - room)
        return self._model.add(total <= room + sum(over * lifted for lifted in unless))

    def run(
        self,
        name: str,
        hint: Iterable[tuple[cp_model.IntVar, int]],
        work: float,
        *,
        limit_s: float = inf,
        gap: float = 0.0,
        quick: bool = False,
    ) -> cp_model.CpSolver | None:
        """Solve the model with its present objective, from `hint` on, and note the stage. None without an answer.
        `quick`: little presolving, which was measured on a fleet of 10,000 nodes."""
        limit_s = min(limit_s, self._ends - time.monotonic())
        if self.work <= 0 or limit_s <= 0:
            self.entries.append(Stage(name, 0, 0, "SKIPPED"))
            return None
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in hint:
            self._model.add_hint(variable, value)
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers, parameters.random_seed = 1, self._seed % (1 << 31)
        parameters.max_time_in_seconds, parameters.max_deterministic_time = limit_s, work
        parameters.relative_gap_limit = gap
        if quick:
            parameters.cp_model_probing_level, parameters.max_presolve_iterations = 0, 1
        began = time.monotonic()
        status = self._solved(solver)
        if status == cp_model.INFEASIBLE and self.provisional:
            for constraint in self.provisional:
                constraint.proto.linear.domain[0] = 0
            parameters.max_time_in_seconds = max(0.0, self._ends - time.monotonic())
            status = self._solved(solver)
        found = status in _SOLVED
        value, bound = (round(solver.objective_value), round(solver.best_objective_bound)) if found else (0, 0)
        took = round(time.monotonic() - began, 4)
        self.entries.append(Stage(name, value, bound, solver.status_name(status), took))
        return solver if found else None

    def _solved(self, solver: cp_model.CpSolver) -> cp_model.CpSolverStatus:
        status = solver.solve(self._model)
        self.work -= solver.response_proto.deterministic_time
        return status
