"""CP-SAT on the linked model, and on the choice of victims: the only file that imports ortools.

One stage a priority band, most important first: maximise it, keep at least what was reached, go on; last, cheapest
lanes. One worker, a fixed seed and a limit in deterministic time, so that the same problem gets the same answer; a
relative gap ends a stage, since proving the last unit is what takes the time. No stage accepts less than the known
answer reaches there while it may still be had: what a gap gives away in one stage is room that all stages after it
would have to prove useless, and that took most of the time. A stage that cannot improve is skipped. Victims are chosen
in stages likewise, without a gap: few, then cheap ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd

from ortools.sat.python import cp_model

from fleet.placement.problem import Answer, Demand, Place, Problem, Solved, VictimProblem

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


class _Limit:
    """What is left of a limit in seconds: by the clock, if there is one, so that building a model counts; else less
    what the solver says it took."""

    def __init__(self, limit_s: float, clock: Callable[[], float] | None) -> None:
        self._left_s = limit_s
        self._clock = clock
        self._ends = limit_s + clock() if clock is not None else 0.0

    @property
    def left_s(self) -> float:
        return self._left_s if self._clock is None else self._ends - self._clock()

    def spend(self, seconds: float) -> None:
        self._left_s -= seconds


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
        limit = _Limit(limit_s, self._clock)
        if isinstance(problem, VictimProblem):
            return _Victims(problem, seed, limit, emit).run()
        return _Run(problem, seed, limit, emit).run()


class _Run:
    def __init__(self, problem: Problem, seed: int, limit: _Limit, emit: Callable[[Answer], None]) -> None:
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
        self._hold()
        for chain in problem.chains:
            for before, after in pairwise(chain):
                whole = model.new_bool_var(f"b{before}")
                if problem.classes[before].cap < problem.classes[before].count:
                    model.add(whole == 0)
                model.add(self._admitted[before] >= problem.classes[before].count * whole)
                model.add(self._admitted[after] <= problem.classes[after].cap * whole)

    def _hold(self) -> None:
        """What heads keep others from, unless they start."""
        problem, lanes = self._problem, len(self._problem.lanes)
        caps = [*(lane.cap for lane in problem.lanes), *(cls.cap for cls in problem.classes)]
        variables = [*self._placed, *self._admitted]
        for row in problem.held:
            both = [*row.lanes, *((lanes + index, amount) for index, amount in row.classes)]
            terms, room = scaled(both, row.room, caps.__getitem__)
            over = max(0, sum(amount * caps[index] for index, amount in terms) - room) if row.head >= 0 else 0
            lifted = over * self._admitted[row.head]
            self._model.add(sum(amount * variables[index] for index, amount in terms) - lifted <= room)

    def run(self) -> Answer:
        answer = Answer()
        known = hint = self._problem.hint
        for band, name in enumerate(self._problem.bands):
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
                answer, hint = found, (found.admitted, found.placed)
                value = self._stages[-1].value
            if least != value:
                known = ((), ())  # it is not to be had any more, or never was
            kept = self._model.add(sum(weight * var for var, weight in terms) >= value)
            if answer.empty:
                self._firm.append(kept)  # the model has not seen that it can be had
        answer = Answer(*known) if answer.empty else self._fit(answer)
        return Answer(answer.admitted, answer.placed, tuple(self._stages), answer.why)

    def _give(self, band: int) -> None:
        """From this band on, heads that start in the known answer do in every answer."""
        for first, index in self._problem.given:
            if first == band:
                self._firm.append(self._model.add(self._admitted[index] >= 1))

    def _is_full(self, band: int, hint: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
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
        hint: tuple[tuple[int, ...], tuple[int, ...]],
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


class _TooLarge(Exception):
    """Numbers that the solver cannot add up."""


class _Victims:
    """Who leaves: `x` of each victim, how many of each gang go to each site, and how many pods of each demand lie on
    each place."""

    def __init__(self, problem: VictimProblem, seed: int, limit: _Limit, emit: Callable[[Answer], None]) -> None:
        self._problem = problem
        self._seed = seed
        self._limit = limit
        self._left_work = problem.deterministic_limit
        self._emit = emit
        self._stages: list[Solved] = []
        model = self._model = cp_model.CpModel()
        self._leaves = [model.new_bool_var(f"x{index}") for index in range(len(problem.victims))]
        self._at: list[dict[int, cp_model.IntVar]] = []  # of each gang: how many go to a site
        self._used = [model.new_bool_var(f"s{site}") for site in range(len(problem.sites))]
        for gang, (sites, count) in enumerate(zip(problem.gangs, problem.counts, strict=True)):
            at = {site: model.new_int_var(0, count, f"m{gang}.{site}") for site, _ in sites}
            model.add(sum(at.values()) == count)
            for site, number in at.items():
                model.add(number <= count * self._used[site])
            self._at.append(at)

    def run(self) -> Answer:
        problem, answer = self._problem, Answer()
        try:
            self._constrain()
        except _TooLarge:
            return Answer(why="the solver cannot add up amounts this large")
        within = [(var, 1) for var, victim in zip(self._leaves, problem.victims, strict=True) if victim.within]
        lost = [(var, victim.lost) for var, victim in zip(self._leaves, problem.victims, strict=True)]
        order = [
            (at[site], number)
            for at, sites in zip(self._at, problem.gangs, strict=True)
            for site, number in sites
        ]  # fmt: skip
        hint = [int(index in problem.hint) for index in range(len(problem.victims))]
        everyone = [(var, 1) for var in self._leaves]
        least = 1 if problem.hint else 0  # who gives a hint knows that somebody must leave
        self._model.add(sum(self._leaves) >= least)
        known = {"within": 0, "evictions": least} if problem.hint else {}
        for name, terms in (("within", within), ("evictions", everyone), ("lost", lost), ("member", order)):
            if not any(weight for _, weight in terms):
                continue
            value = sum(hint[var.index] * weight for var, weight in terms) if name in known else -1
            if name in known and value == known[name]:  # what is known already is as good as can be
                self._stages.append(Solved(name, value, value, "OPTIMAL"))
            else:
                found = self._stage(name, terms, hint)
                if found is None:
                    break
                answer, hint = found, list(found.admitted)
                value = self._stages[-1].value
            self._model.add(sum(weight * var for var, weight in terms) <= value)
            if answer.admitted and not any(answer.admitted):
                break
        return Answer(answer.admitted, answer.placed, tuple(self._stages), answer.why)

    def _at_most(self, terms: list[tuple[cp_model.IntVar, int, int]], most: int) -> cp_model.Constraint:
        """Σ amount × variable ≤ most; terms are (variable, amount, the largest value of the variable)."""
        common = gcd(*(amount for _, amount, _ in terms)) or 1
        most //= common
        if abs(most) + sum(abs(amount // common) * cap for _, amount, cap in terms) > _SAFE:
            raise _TooLarge
        return self._model.add(sum(amount // common * var for var, amount, _ in terms) <= most)

    def _constrain(self) -> None:
        problem, model = self._problem, self._model
        for row in problem.freed:
            self._at_most([(self._leaves[index], -amount, 1) for index, amount in row.terms], -row.need)
        pods: list[list[tuple[int, cp_model.IntVar, int]]] = [[] for _ in problem.places]  # demand, variable, its cap
        per_demand: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in problem.demands]  # place, variable
        for number, demand in enumerate(problem.demands):
            for index, place in enumerate(problem.places):
                cap = self._cap(demand, place)
                if cap:
                    variable = model.new_int_var(0, cap, f"y{number}.{index}")
                    pods[index].append((number, variable, cap))
                    per_demand[number].append((index, variable))
        for number, demand in enumerate(problem.demands):
            self._demand(demand, per_demand[number])
        for place, here in zip(problem.places, pods, strict=True):
            self._place(place, here)
        if problem.together:
            self._together(pods)
        for where, victims in problem.cuts:
            others = [var for index, var in enumerate(self._leaves) if index not in victims]
            model.add(sum(others) >= 1).only_enforce_if(*(self._goes(gang, site, many) for gang, site, many in where))
        for leaves, victim in zip(self._leaves, problem.victims, strict=True):
            if victim.site >= 0:
                comes = [self._at[gang][victim.site] for gang in victim.by if victim.site in self._at[gang]]
                model.add(leaves <= sum(comes))

    def _goes(self, gang: int, site: int, many: int) -> cp_model.IntVar:
        """Whether so many of a gang go to a site, or more."""
        known = self._model.new_bool_var("g")
        self._model.add(self._at[gang][site] <= many - 1).only_enforce_if(known.negated())
        return known

    def _demand(self, demand: Demand, here: list[tuple[int, cp_model.IntVar]]) -> None:
        if demand.site >= 0:
            gone = sum(pods * self._leaves[victim] for victim, pods in demand.less)
            found = self._model.add(sum(variable for _, variable in here) + gone >= demand.replicas)
            found.only_enforce_if(self._used[demand.site])
            return
        for number, chosen in self._at[demand.gang].items():
            at = [variable for index, variable in here if self._problem.places[index].site == number]
            self._model.add(sum(at) == demand.replicas * chosen)

    def _place(self, place: Place, here: list[tuple[int, cp_model.IntVar, int]]) -> None:
        if not here or (len(here) == 1 and not place.holds and place.owner < 0):
            return  # its cap says it all
        if place.count > 1 and not place.holds and place.owner < 0:
            self._slots(place, here)
        used = None
        if any(amount < 0 for amount in place.free):  # overcommitted: that binds only who comes there
            used = self._model.new_bool_var("u")
            for _, variable, cap in here:
                self._model.add(variable <= cap * used)
        for resource in sorted({index for number, _, _ in here for index, _ in self._problem.demands[number].need}):
            terms = [
                (variable, amount, cap)
                for number, variable, cap in here
                for index, amount in self._problem.demands[number].need
                if index == resource
            ]
            most = place.count * place.free[resource]
            if place.owner >= 0:
                terms.append((self._leaves[place.owner], -most, 1))
                most = 0
            terms += [(self._leaves[victim], -held[resource], 1) for victim, held in place.holds if held[resource]]
            row = self._at_most(terms, most)
            if used is not None:
                row.only_enforce_if(used)

    def _slots(self, place: Place, here: list[tuple[int, cp_model.IntVar, int]]) -> None:
        """Of pods at least as large as those of one demand, nodes alike take no more than of that one."""
        demands = self._problem.demands
        for need in sorted({demands[number].need for number, _, _ in here if demands[number].need}):
            larger = [
                variable
                for number, variable, _ in here
                if all(dict(demands[number].need).get(index, 0) >= amount for index, amount in need)
            ]
            if len(larger) > 1:
                each = min(max(0, place.free[index]) // amount for index, amount in need)
                self._model.add(sum(larger) <= place.count * each)

    def _together(self, pods: list[list[tuple[int, cp_model.IntVar, int]]]) -> None:
        domains: dict[tuple[int, int, str], cp_model.IntVar] = {}
        for place, here in zip(self._problem.places, pods, strict=True):
            for number, variable, cap in here:
                demand = self._problem.demands[number]
                if demand.site < 0 and demand.gang in self._problem.together:
                    at = (demand.gang, place.site, place.domain)
                    if at not in domains:
                        domains[at] = self._model.new_bool_var(f"d{at}")
                    self._model.add(variable <= cap * domains[at])
        for gang in self._problem.together:
            for site, chosen in self._at[gang].items():
                self._model.add(sum(var for at, var in domains.items() if at[:2] == (gang, site)) == chosen)

    def _cap(self, demand: Demand, place: Place) -> int:
        """How many pods of a demand one place takes at most, once everybody has left it."""
        if not place.takes[demand.claim] or demand.site not in (-1, place.site):
            return 0
        if demand.site < 0:
            barred = place.wide or (demand.gang in self._problem.together and not place.domain)
            if barred or place.site not in self._at[demand.gang]:
                return 0
        most = list(place.free)
        for _, held in place.holds:
            most = [have + more for have, more in zip(most, held, strict=True)]
        pods = demand.replicas * (self._problem.counts[demand.gang] if demand.site < 0 else 1)
        each = min((most[index] // amount for index, amount in demand.need), default=pods)
        return max(0, min(pods, place.count * each))

    def _stage(self, name: str, terms: list[tuple[cp_model.IntVar, int]], hint: list[int]) -> Answer | None:
        left_s = self._limit.left_s
        if self._left_work <= 0 or left_s <= 0:
            self._stages.append(Solved(name, 0, 0, "SKIPPED"))
            return None
        self._model.minimize(sum(weight * var for var, weight in terms))
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        for variable, value in zip(self._leaves, hint, strict=True):
            self._model.add_hint(variable, value)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed % (1 << 31)
        solver.parameters.max_deterministic_time = self._left_work
        solver.parameters.max_time_in_seconds = left_s
        status = solver.solve(self._model)
        self._limit.spend(solver.wall_time)
        self._left_work -= solver.response_proto.deterministic_time
        seconds = round(solver.wall_time, 4)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self._stages.append(Solved(name, 0, 0, solver.status_name(status), seconds))
            return None
        value, bound = round(solver.objective_value), round(solver.best_objective_bound)
        self._stages.append(Solved(name, value, bound, solver.status_name(status), seconds))
        leaves = tuple(int(solver.value(var)) for var in self._leaves)
        where = tuple(site for at in self._at for site, var in sorted(at.items()) for _ in range(solver.value(var)))
        answer = Answer(leaves, where, tuple(self._stages))
        self._emit(answer)
        return answer
