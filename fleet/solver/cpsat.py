"""CP-SAT on the linked model. Beside it only cpsat_victims.py, on the choice of victims, imports ortools.

One stage a priority band, most important first: maximise it, keep at least what was reached, go on; last, cheapest
lanes. After the guaranteed bands comes one more where these could cost heads their seats: as seldom as can be. One
worker, a fixed seed and a limit in deterministic time, so that the same problem gets the same answer; a relative gap
ends a stage, since proving the last unit is what takes the time. No stage accepts less than the known answer reaches
there while it may still be had: what a gap gives away in one stage is room that all stages after it would have to prove
useless, and that took most of the time. A stage that cannot improve is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd

from ortools.sat.python import cp_model

from fleet.placement.problem import Answer, Problem, Solved, VictimProblem
from fleet.solver.cpsat_victims import Victims
from fleet.solver.limit import SAFE, Limit

Counts = tuple[tuple[int, ...], tuple[int, ...]]  # an answer: (admitted, placed)
_FIT = "fit"
_FIT_GAP, _FIT_WORK = 0.05, 0.1  # of the cost of lanes, and in deterministic time, where nodes are modelled
_PASSING = "passing"


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
    if largest > SAFE:
        divisor = -(-largest // SAFE)
        row = [(index, -(-amount // divisor)) for index, amount in row]
        room //= divisor
    return row, room


class CpSat:
    """Solves in this process. For a deadline that holds, use ProcessSolver, which runs this in a child."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock`: seconds that only grow."""
        self._clock = clock

    def solve(
        self,
        problem: Problem | VictimProblem,
        *,
        seed: int,
        limit_s: float,
        emit: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """The best answer found. `emit` gets every stage's answer as it comes."""
        emit = emit or (lambda answer: None)
        if isinstance(problem, VictimProblem):
            return Victims(problem, seed, Limit(limit_s, self._clock), emit).run()
        return _Run(problem, seed, Limit(problem.part * limit_s, self._clock), emit).run()


class _Run:
    def __init__(self, problem: Problem, seed: int, limit: Limit, emit: Callable[[Answer], None]) -> None:
        self._problem = problem
        self._seed = seed
        self._limit = limit
        self._fit_s = problem.fit_part * limit.left_s
        self._left_work = problem.deterministic_limit
        self._emit = emit
        self._model = cp_model.CpModel()
        self._stages: list[Solved] = []
        self._asked_full = False
        self._firm: list[cp_model.Constraint] = []  # what holds because the known answer is had: 0 or more at the least
        new = self._model.new_int_var
        self._admitted = [new(0, cls.cap, f"a{index}") for index, cls in enumerate(problem.classes)]
        self._placed = [new(0, lane.cap, f"z{index}") for index, lane in enumerate(problem.lanes)]
        self._pooled: dict[int, cp_model.IntVar] = {}
        self._spared: list[cp_model.IntVar] = []  # whether a reservation that may be given up is not
        self._constrain()

    def _constrain(self) -> None:
        problem, model = self._problem, self._model
        sides: dict[tuple[int, int, int], tuple[list[cp_model.IntVar], list[cp_model.IntVar]]] = {}
        for cls, admitted in zip(problem.classes, self._admitted, strict=True):
            sides.setdefault((cls.shape, cls.eligibility, cls.bound), ([], []))[0].append(admitted)
        for lane, placed in zip(problem.lanes, self._placed, strict=True):
            sides.setdefault((lane.shape, lane.eligibility, lane.bound), ([], []))[1].append(placed)
        for wanting, going in sides.values():
            model.add(sum(wanting) == sum(going))
        for spread in problem.spreads:
            for number in spread.variables:
                self._pooled[number] = model.new_int_var(0, spread.cap, f"y{number}")
            pods = sum(replicas * self._placed[lane] for lane, replicas in spread.lanes)
            model.add(sum(self._pooled[n] for n in spread.variables) == pods)
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
        self._reserve()
        for chain in problem.chains:
            for before, after in pairwise(chain):
                whole = model.new_bool_var(f"b{before}")
                if problem.classes[before].cap < problem.classes[before].count:
                    model.add(whole == 0)
                model.add(self._admitted[before] >= problem.classes[before].count * whole)
                model.add(self._admitted[after] <= problem.classes[after].cap * whole)

    def _reserve(self) -> None:
        """What reservations leave to others, unless their unit starts or they are given up."""
        problem, model, lanes = self._problem, self._model, len(self._problem.lanes)
        caps = [*(lane.cap for lane in problem.lanes), *(cls.cap for cls in problem.classes)]
        variables = [*self._placed, *self._admitted]
        for number, passing in enumerate(problem.passed):
            spared = model.new_bool_var(f"s{number}")
            model.add(1 - spared <= sum(self._placed[index] for index in passing.lanes))
            for index in passing.bound:
                model.add(self._placed[index] <= caps[index] * spared)
            self._spared.append(spared)
        for row in problem.spans:
            both = [*row.lanes, *((lanes + index, amount) for index, amount in row.classes)]
            terms, room = scaled(both, row.room, caps.__getitem__)
            over = max(0, sum(amount * caps[index] for index, amount in terms) - room)
            beyond = [over * self._admitted[row.head]] if row.head >= 0 else []
            beyond += [over * (1 - self._spared[row.passed])] if row.passed >= 0 else []
            model.add(sum(amount * variables[index] for index, amount in terms) <= room + sum(beyond))

    def run(self) -> Answer:
        answer = Answer()
        known: Counts = self._problem.hint
        hint = known
        seen = False  # whether the model has seen that the answer can be had
        for band, name in enumerate(self._problem.bands):
            if band == self._problem.firm:
                answer, hint, seen = self._spare(answer, hint, seen)
                known = known if self._given_up(known) <= self._given_up(hint) else ((), ())
            classes = [(index, cls) for index, cls in enumerate(self._problem.classes) if cls.band == band]
            terms = [(self._admitted[index], cls.weight) for index, cls in classes]
            most = min([sum(cls.weight * cls.cap for _, cls in classes), *self._problem.proven[band : band + 1]])
            value = 0 if answer.empty else sum(cls.weight * answer.admitted[index] for index, cls in classes)
            least = sum(cls.weight * known[0][index] for index, cls in classes) if known[0] else 0
            if known[0]:
                self._give(band)
            if value == most and (most == 0 or not answer.empty):
                self._stages.append(Solved(name, value, most, "OPTIMAL"))
            elif least == most and known[0]:
                self._stages.append(Solved(name, least, most, "OPTIMAL"))
                value, hint = least, known
                answer, seen = Answer() if answer.empty else Answer(*known), False
            else:
                if least > value:
                    hint = known
                if self._is_full(band, hint):
                    self._stages += (Solved(rest, 0, 0, "OPTIMAL") for rest in self._problem.bands[band + 1 :])
                    answer = Answer(*hint)
                    break
                found = self._stage(name, terms, True, hint, max(least, value))
                if found is None:
                    return Answer(answer.admitted, answer.placed, tuple(self._stages), answer.why)
                answer, hint, seen = found, (found.admitted, found.placed), True
                value = self._stages[-1].value
            if least != value:
                known = ((), ())  # it is not to be had any more, or never was
            kept = self._model.add(sum(weight * var for var, weight in terms) >= value)
            if not seen:
                self._firm.append(kept)
        answer = Answer(*known) if answer.empty else self._fit(answer)
        return Answer(answer.admitted, answer.placed, tuple(self._stages), answer.why)

    def _given_up(self, answer: Counts) -> int:
        """How many reservations an answer gives up."""
        given: set[int] = set()
        for row in self._problem.spans if answer[0] else ():
            stands = row.passed >= 0 and (row.head < 0 or not answer[0][row.head])
            if stands and sum(amount * answer[1][index] for index, amount in row.lanes) > row.room:
                given.add(row.passed)
        return len(given)

    def _spare(self, answer: Answer, hint: Counts, seen: bool) -> tuple[Answer, Counts, bool]:
        """From now on as few reservations are given up as can be. Not among the stages told: those are one a band."""
        if not self._spared:
            return answer, hint, seen
        most = self._given_up(hint) if hint[0] else len(self._spared)
        if most:
            found = self._stage(_PASSING, [(spared, 1) for spared in self._spared], True, hint, 0)
            self._stages.pop()
            if found is None:
                return answer, hint, seen
            answer, hint, seen = found, (found.admitted, found.placed), True
            most = self._given_up(hint)
        kept = self._model.add(sum(self._spared) >= len(self._spared) - most)
        if not seen:
            self._firm.append(kept)
        return answer, hint, seen

    def _give(self, band: int) -> None:
        """From this band on, heads that start in the known answer do in every answer."""
        for first, index in self._problem.given:
            if first == band:
                self._firm.append(self._model.add(self._admitted[index] >= 1))

    def _is_full(self, band: int, hint: Counts) -> bool:
        """Whether nobody of this band or a later one can start, asked once for all of them where the best answer so
        far starts nobody. Then its stage is the last one."""
        later = [(index, cls) for index, cls in enumerate(self._problem.classes) if cls.band >= band]
        if self._asked_full or band + 1 == len(self._problem.bands) or not hint[0]:
            return False
        if any(hint[0][index] for index, _ in later):
            return False
        self._asked_full = True
        emit, self._emit = self._emit, lambda answer: None  # it is about more than its band
        self._stage(self._problem.bands[band], [(self._admitted[index], 1) for index, _ in later], True, hint, 0)
        self._emit = emit
        if self._stages[-1].status == "OPTIMAL" and self._stages[-1].bound == 0:
            return True
        self._stages.pop()
        return False

    def _fit(self, answer: Answer) -> Answer:
        """Cheapest lanes for what is admitted."""
        terms = [(var, lane.cost) for var, lane in zip(self._placed, self._problem.lanes, strict=True) if lane.cost]
        if answer.empty or not terms:
            return answer
        for var, count in zip(self._admitted, answer.admitted, strict=True):
            self._model.add(var == count)
        return self._stage(_FIT, terms, False, (answer.admitted, answer.placed), 0) or answer

    def _stage(
        self,
        name: str,
        terms: list[tuple[cp_model.IntVar, int]],
        upwards: bool,
        hint: Counts,
        least: int,
    ) -> Answer | None:
        """The best by `terms`, at least `least` of it: what the hint reaches. Where the model knows of a limit that the
        hint breaks, whatever it finds."""
        left_s = self._limit.left_s if upwards else min(self._fit_s, self._limit.left_s)
        if self._left_work <= 0 or left_s <= 0:
            self._stages.append(Solved(name, 0, 0, "SKIPPED"))
            return None
        model = self._model
        objective = sum(weight * var for var, weight in terms)
        (model.maximize if upwards else model.minimize)(objective)
        if least > 0:
            self._firm.append(model.add(objective >= least))
        model.clear_hints()  # type: ignore[no-untyped-call]
        for variables, values in ((self._admitted, hint[0]), (self._placed, hint[1])):
            for var, value in zip(variables, values, strict=False):
                model.add_hint(var, value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed % (1 << 31)
        solver.parameters.max_deterministic_time = self._left_work / 2 if upwards else self._left_work
        solver.parameters.max_time_in_seconds = left_s
        solver.parameters.relative_gap_limit = self._problem.relative_gap
        if self._problem.nodes:  # a quarter of the time, measured on small fleets
            solver.parameters.cp_model_probing_level = 0
            solver.parameters.max_presolve_iterations = 1
            if name == _FIT:  # whether it packs is not known yet, and proving the last lane took long
                solver.parameters.relative_gap_limit = max(_FIT_GAP, self._problem.relative_gap)
                solver.parameters.max_deterministic_time = min(_FIT_WORK, self._left_work)
        status = solver.solve(model)
        self._limit.spend(solver.wall_time)
        took, work = solver.wall_time, solver.response_proto.deterministic_time
        if status == cp_model.INFEASIBLE and self._firm:
            for constraint in self._firm:
                constraint.proto.linear.domain[0] = 0
            solver.parameters.max_time_in_seconds = max(0.0, self._limit.left_s)
            status = solver.solve(model)
            self._limit.spend(solver.wall_time)
            took, work = took + solver.wall_time, work + solver.response_proto.deterministic_time
        self._left_work -= work
        seconds = round(took, 4)
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
