"""CP-SAT on the linked model: the only file that imports ortools.

One stage a priority band, most important first: maximise it, keep at least what was reached, go on; last, cheapest
lanes. One worker, a fixed seed and a limit in deterministic time, so that the same problem gets the same answer; a
relative gap ends a stage, since proving the last unit is what takes the time. A stage that cannot improve is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd

from ortools.sat.python import cp_model

from fleet.placement.problem import Answer, Problem, Solved

_SAFE = 1 << 50  # the largest sum of a row that the solver gets: far below its 2^63
_FIT = "fit"


def scaled(
    terms: Iterable[tuple[int, int]], room: int, caps: Callable[[int], int]
) -> tuple[list[tuple[int, int]], int]:
    """Σ amount × x ≤ room with numbers that the solver can add up. Dividing by the common divisor is exact; beyond
    that amounts are rounded up and the room down, so that no answer exceeds what the row allows."""
    row = [(index, amount) for index, amount in terms if amount > 0]
    if not row:
        return [], room
    common = gcd(*(amount for _, amount in row))
    row = [(index, amount // common) for index, amount in row]
    room //= common
    largest = max(room, sum(amount * max(1, caps(index)) for index, amount in row))
    if largest > _SAFE:
        divisor = -(-largest // _SAFE)
        row = [(index, -(-amount // divisor)) for index, amount in row]
        room //= divisor
    return row, room


class CpSat:
    """Solves in this process. For a deadline that holds, use ProcessSolver, which runs this in a child."""

    def solve(
        self, problem: Problem, *, seed: int, limit_s: float, emit: Callable[[Answer], None] | None = None
    ) -> Answer:
        """The best answer found. `emit` gets every stage's answer as it comes."""
        return _Run(problem, seed, limit_s, emit or (lambda answer: None)).run()


class _Run:
    def __init__(self, problem: Problem, seed: int, limit_s: float, emit: Callable[[Answer], None]) -> None:
        self._problem = problem
        self._seed = seed
        self._left_s = limit_s
        self._left_work = problem.deterministic_limit
        self._emit = emit
        self._model = cp_model.CpModel()
        self._stages: list[Solved] = []
        new = self._model.new_int_var
        self._admitted = [new(0, cls.cap, f"a{index}") for index, cls in enumerate(problem.classes)]
        self._placed = [new(0, lane.cap, f"z{index}") for index, lane in enumerate(problem.lanes)]
        self._pooled: dict[int, cp_model.IntVar] = {}
        self._constrain()

    def _constrain(self) -> None:
        problem, model = self._problem, self._model
        sides: dict[tuple[int, int], tuple[list[cp_model.IntVar], list[cp_model.IntVar]]] = {}
        for cls, admitted in zip(problem.classes, self._admitted, strict=True):
            sides.setdefault((cls.shape, cls.eligibility), ([], []))[0].append(admitted)
        for lane, placed in zip(problem.lanes, self._placed, strict=True):
            sides.setdefault((lane.shape, lane.eligibility), ([], []))[1].append(placed)
        for wanting, going in sides.values():
            model.add(sum(wanting) == sum(going))
        for spread in problem.spreads:
            for number in spread.variables:
                self._pooled[number] = model.new_int_var(0, spread.cap, f"y{number}")
            model.add(sum(self._pooled[n] for n in spread.variables) == spread.replicas * self._placed[spread.lane])
        for row in problem.quota:
            terms, room = scaled(row.terms, row.room, lambda index: problem.classes[index].cap)
            model.add(sum(amount * self._admitted[index] for index, amount in terms) <= room)
        caps = [lane.cap for lane in problem.lanes]
        pooled_caps = {number: spread.cap for spread in problem.spreads for number in spread.variables}
        for limit in problem.rooms:
            # pool variables follow the lanes in one numbering, so that one scale serves the whole row
            both = [*limit.lanes, *((len(caps) + number, amount) for number, amount in limit.spreads)]
            terms, room = scaled(both, limit.room, lambda i: caps[i] if i < len(caps) else pooled_caps[i - len(caps)])
            model.add(
                sum(amount * (self._placed[i] if i < len(caps) else self._pooled[i - len(caps)]) for i, amount in terms)
                <= room
            )
        for chain in problem.chains:
            for before, after in pairwise(chain):
                whole = model.new_bool_var(f"b{before}")
                if problem.classes[before].cap < problem.classes[before].count:
                    model.add(whole == 0)
                model.add(self._admitted[before] >= problem.classes[before].count * whole)
                model.add(self._admitted[after] <= problem.classes[after].cap * whole)

    def run(self) -> Answer:
        answer = Answer()
        hint = self._problem.hint
        for band, name in enumerate(self._problem.bands):
            classes = [(index, cls) for index, cls in enumerate(self._problem.classes) if cls.band == band]
            terms = [(self._admitted[index], cls.weight) for index, cls in classes]
            most = sum(cls.weight * cls.cap for _, cls in classes)
            value = 0 if answer.empty else sum(cls.weight * answer.admitted[index] for index, cls in classes)
            if value == most and (most == 0 or not answer.empty):
                self._stages.append(Solved(name, value, most, "OPTIMAL"))
            else:
                found = self._stage(name, terms, True, hint)
                if found is None:
                    break
                answer, hint = found, (found.admitted, found.placed)
                value = self._stages[-1].value
            self._model.add(sum(weight * var for var, weight in terms) >= value)
        else:
            answer = self._fit(answer)
        return Answer(answer.admitted, answer.placed, tuple(self._stages), answer.why)

    def _fit(self, answer: Answer) -> Answer:
        """Cheapest lanes for what is admitted."""
        terms = [(var, lane.cost) for var, lane in zip(self._placed, self._problem.lanes, strict=True) if lane.cost]
        if answer.empty or not terms:
            return answer
        for var, count in zip(self._admitted, answer.admitted, strict=True):
            self._model.add(var == count)
        return self._stage(_FIT, terms, False, (answer.admitted, answer.placed)) or answer

    def _stage(
        self,
        name: str,
        terms: list[tuple[cp_model.IntVar, int]],
        upwards: bool,
        hint: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> Answer | None:
        if self._left_work <= 0 or self._left_s <= 0:
            self._stages.append(Solved(name, 0, 0, "SKIPPED"))
            return None
        model = self._model
        objective = sum(weight * var for var, weight in terms)
        (model.maximize if upwards else model.minimize)(objective)
        model.clear_hints()  # type: ignore[no-untyped-call]
        for variables, values in ((self._admitted, hint[0]), (self._placed, hint[1])):
            for var, value in zip(variables, values, strict=False):
                model.add_hint(var, value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed % (1 << 31)
        solver.parameters.max_deterministic_time = self._left_work / 2 if upwards else self._left_work
        solver.parameters.max_time_in_seconds = self._left_s
        solver.parameters.relative_gap_limit = self._problem.relative_gap
        status = solver.solve(model)
        self._left_s -= solver.wall_time
        self._left_work -= solver.response_proto.deterministic_time
        seconds = round(solver.wall_time, 4)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self._stages.append(Solved(name, 0, 0, solver.status_name(status), seconds))
            return None
        value, bound = round(solver.objective_value), round(solver.best_objective_bound)
        self._stages.append(Solved(name, value, bound, solver.status_name(status), seconds))
        answer = Answer(
            tuple(solver.value(var) for var in self._admitted),
            tuple(solver.value(var) for var in self._placed),
            tuple(self._stages),
        )
        self._emit(answer)
        return answer
