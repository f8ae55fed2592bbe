"""CP-SAT on the linked model: one stage for each priority band, the most important first.

A stage maximises its band; the value that it reaches is a lower limit for all stages after it. The last stage takes the
cheapest lanes. After the guaranteed bands comes a stage that gives up as few reservations as possible.

The proof of the last unit takes most of the time, so a relative gap ends a stage. But no stage accepts less than the
value of the known answer there, while that answer is as good in all stages before. Else a stage could give away room
within its gap, and every later stage would prove that this room is useless. A stage that cannot improve is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf

from ortools.sat.python import cp_model

from fleet.core.model.plan import Answer, Stage
from fleet.core.placement.problem import Counts, GangKind, Problem, VictimProblem
from fleet.core.solver.cpsat_victims import Victims
from fleet.core.solver.stages import Stages

_FIT, _PASSING = "fit", "passing"
_FIT_GAP, _FIT_WORK = 0.05, 0.1  # of the cost of lanes, and in deterministic time, where nodes are modelled
_NOTHING: Counts = ((), ())


class CpSat:
    """The solver in this process. ProcessSolver runs it in a child, where a deadline holds."""

    def solve(
        self,
        problem: Problem | VictimProblem,
        *,
        seed: int,
        limit_s: float,
        emit: Callable[[Answer], None] = lambda answer: None,
    ) -> Answer:
        """The best answer found. `emit` gets the answer of every stage at once."""
        if isinstance(problem, VictimProblem):
            return Victims(problem, seed, limit_s, emit).run()
        return _Run(problem, seed, problem.part * limit_s, emit).run()


class _Run:
    """One solve. `_best`: the best answer so far, at first the known one; `_found`: whether a stage has found one;
    `_seen`: whether the model has shown that the best answer is feasible."""

    def __init__(self, problem: Problem, seed: int, limit_s: float, emit: Callable[[Answer], None]) -> None:
        self._problem = problem
        self._fit_s = problem.fit_part * limit_s
        self._emit = emit
        self._model = model = cp_model.CpModel()
        self._stages = Stages(model, seed, limit_s, problem.deterministic_limit)
        self._best, self._found, self._seen = problem.hint, False, False
        self._asked_full = False
        self._admitted = [model.new_int_var(0, cls.cap, f"a{index}") for index, cls in enumerate(problem.classes)]
        self._placed = [model.new_int_var(0, lane.cap, f"z{index}") for index, lane in enumerate(problem.lanes)]
        self._pods = {
            number: model.new_int_var(0, spread.cap, f"y{number}")
            for spread in problem.spreads
            for number in spread.variables
        }
        self._spared: list[cp_model.IntVar] = []  # whether a reservation that may be given up is not
        self._constrain()

    def _constrain(self) -> None:
        problem, model = self._problem, self._model
        sides: dict[GangKind, tuple[list[cp_model.IntVar], list[cp_model.IntVar]]] = {}
        for cls, variable in zip(problem.classes, self._admitted, strict=True):
            sides.setdefault(cls.kind, ([], []))[0].append(variable)
        for lane, variable in zip(problem.lanes, self._placed, strict=True):
            sides.setdefault(lane.kind, ([], []))[1].append(variable)
        for admitted, placed in sides.values():
            model.add(sum(admitted) == sum(placed))
        for spread in problem.spreads:
            pods = sum(replicas * self._placed[lane] for lane, replicas in spread.lanes)
            model.add(sum(self._pods[number] for number in spread.variables) == pods)
        for number, passing in enumerate(problem.passed):
            spared = model.new_bool_var(f"s{number}")
            model.add(1 - spared <= sum(self._placed[index] for index in passing.lanes))
            for index in passing.bound:
                model.add(self._placed[index] <= problem.lanes[index].cap * spared)
            self._spared.append(spared)
        for row in (*problem.quota, *problem.rooms, *problem.spans):
            of_row = ((self._placed, row.lanes), (self._pods, row.pods), (self._admitted, row.classes))
            terms = [(variables[index], amount) for variables, part in of_row for index, amount in part]
            unless: list[cp_model.LinearExprT] = [self._admitted[row.head]] if row.head >= 0 else []
            unless += [1 - self._spared[row.passed]] if row.passed >= 0 else []
            self._stages.at_most(terms, row.room, unless)
        for chain in problem.chains:
            for before, after in pairwise(chain):
                whole = model.new_bool_var(f"b{before}")
                if problem.classes[before].cap < problem.classes[before].count:
                    model.add(whole == 0)
                model.add(self._admitted[before] >= problem.classes[before].count * whole)
                model.add(self._admitted[after] <= problem.classes[after].cap * whole)

    def run(self) -> Answer:
        problem, hint = self._problem, self._problem.hint  # the known answer, while it is as good as the best
        for band, name in enumerate(problem.bands):
            if band == problem.guaranteed:
                self._spare()
                hint = hint if self._given_up(hint) <= self._given_up(self._best) else _NOTHING
            if hint[0]:
                starts = (self._admitted[index] for first, index in problem.heads if first == band)
                self._stages.provisional += (self._model.add(head >= 1) for head in starts)
            most = min([self._value(band, [cls.cap for cls in problem.classes]), *problem.proven[band : band + 1]])
            value, least = self._value(band, self._best[0]) if self._found else 0, self._value(band, hint[0])
            start = hint if least > value else self._best
            value = max(least, value)
            if value == most and (most == 0 or self._found or hint[0]):
                self._stages.entries.append(Stage(name, value, most, "OPTIMAL"))
                self._best, self._seen = start, self._seen and start is self._best
            elif self._is_full(band, start):
                self._stages.entries += (Stage(rest, 0, 0, "OPTIMAL") for rest in problem.bands[band + 1 :])
                self._best, self._found = start, True
                break
            elif self._accept(self._stage(name, self._terms(band), start, value)):
                value = self._stages.entries[-1].value
            else:
                return self._answer()
            if least != value:
                hint = _NOTHING
            self._keep(sum(weight * variable for variable, weight in self._terms(band)) >= value)
        self._fit()
        return self._answer(hint)

    def _answer(self, otherwise: Counts = _NOTHING) -> Answer:
        return Answer(*(self._best if self._found else otherwise), tuple(self._stages.entries))

    def _accept(self, found: Counts | None) -> bool:
        """Take an answer for the best so far, and emit it at once: no time may be left for another."""
        if found is not None:
            self._best, self._found, self._seen = found, True, True
            self._emit(self._answer())
        return found is not None

    def _keep(self, reached: cp_model.BoundedLinearExpression | bool) -> None:
        constraint = self._model.add(reached)
        if not self._seen:
            self._stages.provisional.append(constraint)

    def _terms(self, band: int) -> list[tuple[cp_model.IntVar, int]]:
        pairs = zip(self._admitted, self._problem.classes, strict=True)
        return [(variable, cls.weight) for variable, cls in pairs if cls.band == band]

    def _value(self, band: int, admitted: Sequence[int]) -> int:
        """The value of an answer in a band; 0 for none."""
        pairs = zip(admitted, self._problem.classes, strict=False)
        return sum(cls.weight * count for count, cls in pairs if cls.band == band)

    def _given_up(self, answer: Counts) -> int:
        """How many reservations an answer gives up."""
        passed: set[int] = set()
        for row in self._problem.spans if answer[0] else ():
            stands = row.passed >= 0 and (row.head < 0 or not answer[0][row.head])
            if stands and sum(amount * answer[1][index] for index, amount in row.lanes) > row.room:
                passed.add(row.passed)
        return len(passed)

    def _spare(self) -> None:
        """Give up as few reservations as possible from now on. This stage is not told: each other one is of a band."""
        if not self._spared:
            return
        most = self._given_up(self._best) if self._best[0] else len(self._spared)
        if most:
            found = self._stage(_PASSING, [(spared, 1) for spared in self._spared], self._best, 0)
            self._stages.entries.pop()
            if not self._accept(found):
                return
            most = self._given_up(self._best)
        self._keep(sum(self._spared) >= len(self._spared) - most)

    def _is_full(self, band: int, start: Counts) -> bool:
        """Whether no gang of this band or a later one can start. The question is asked once, for all these bands
        together, where the best answer so far starts no gang of them. With a yes, this stage is the last one."""
        later = [index for index, cls in enumerate(self._problem.classes) if cls.band >= band]
        if self._asked_full or band + 1 == len(self._problem.bands) or not start[0]:
            return False
        if any(start[0][index] for index in later):
            return False
        self._asked_full = True
        self._stage(self._problem.bands[band], [(self._admitted[index], 1) for index in later], start, 0)
        stage = self._stages.entries[-1]
        if stage.status == "OPTIMAL" and stage.bound == 0:
            return True
        self._stages.entries.pop()
        return False

    def _fit(self) -> None:
        """Take the cheapest lanes for the admitted gangs."""
        lanes = zip(self._placed, self._problem.lanes, strict=True)
        terms = [(variable, lane.cost) for variable, lane in lanes if lane.cost]
        if self._found and self._best[0] and terms:
            for variable, count in zip(self._admitted, self._best[0], strict=True):
                self._model.add(variable == count)
            self._accept(self._stage(_FIT, terms, self._best, 0))

    def _stage(self, name: str, terms: list[tuple[cp_model.IntVar, int]], start: Counts, least: int) -> Counts | None:
        """The best answer by `terms`. At least `least`, the value of `start`, unless `start` is infeasible."""
        gap, work, limit_s = self._problem.relative_gap, self._stages.work / 2, inf
        if name == _FIT:
            work, limit_s = self._stages.work, self._fit_s
            if self._problem.nodes:  # the answer may not pack, and a proof of the last lane takes long
                gap, work = max(_FIT_GAP, gap), min(_FIT_WORK, work)
        objective = sum(weight * variable for variable, weight in terms)
        (self._model.minimize if name == _FIT else self._model.maximize)(objective)
        if least > 0:
            self._stages.provisional.append(self._model.add(objective >= least))
        hint = (*zip(self._admitted, start[0], strict=False), *zip(self._placed, start[1], strict=False))
        solver = self._stages.run(name, hint, work, limit_s=limit_s, gap=gap, quick=self._problem.nodes)
        if solver is None:
            return None
        return tuple(map(solver.value, self._admitted)), tuple(map(solver.value, self._placed))
