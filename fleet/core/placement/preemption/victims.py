"""The choice of victims as a problem for the solver: units that must leave so that gangs have quota, and room in one
member each.

Nodes that a unit may leave are places of their own, with the room that each victim frees there. Other nodes are counted
by their free vectors. Pods that are committed but not seen, and gangs for which room is kept, find room beside the
gang. Quota counts by its max only, and nodes that are counted together as one sum: so the problem may ask for less than
is needed, never for more. A set that turns out not to suffice comes back as a cut. The first that suffices is the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.gang import gang_key
from fleet.core.model.leaving import left_behind
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Answer, Said, Stage
from fleet.core.model.unit import Seat, Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.levels import Levels
from fleet.core.placement.packing.space import Need, Vector, confined, levels_of
from fleet.core.placement.preemption.state import EvictableWork, Lacking, PreemptionState, Work, freeing
from fleet.core.placement.problem import Demand, FreedRow, SiteNodes, Solver, Victim, VictimProblem


def beside(state: PreemptionState, site: int, name: str, victims: Sequence[tuple[int, Unit]]) -> list[Demand]:
    """Pods that find room in a member beside the gangs: pods that are coming, but for those of units that leave, and
    pods of gangs for which room is kept."""
    gone = {unit.id for unit in state.leaving.get(name, ())}
    numbers = {unit.id: index for index, unit in victims}
    pods: dict[tuple[Need, int], int] = {}
    less: dict[tuple[Need, int], list[tuple[int, int]]] = {}
    coming = ((unit, shape) for unit, _, shape in state.coming.get(name, ()) if unit not in gone)
    for owner, shape in (*coming, *(("", shape) for shape in state.claim_shapes.get(name, ()))):
        for part in shape:
            key = (part.need, part.node_claim)
            pods[key] = pods.get(key, 0) + part.replicas
            if owner in numbers:
                less.setdefault(key, []).append((numbers[owner], part.replicas))
    return [
        Demand(site, replicas, need, claim, tuple(less.get((need, claim), ())))
        for (need, claim), replicas in sorted(pods.items())
    ]


class Site:
    """The places of one member. `mixed`: different pods may meet on a node. `bounds`: those that put nodes together
    which different pods may meet on."""

    def __init__(
        self,
        state: PreemptionState,
        site: int,
        member: Member,
        victims: Sequence[tuple[int, Unit]],
        levels: Levels,
        mixed: bool,
    ) -> None:
        self._space = state.space
        self._site = site
        self._member = member
        # By number of the victim; -1 for units that leave in any case.
        self._going = [*((-1, unit) for unit in state.leaving.get(member.name, ())), *victims]
        self._levels = levels
        self.bounds: set[str] = set()
        self._alone_max = BOUNDS.alone_nodes if mixed else 0
        self._traits = [self._of(pool) for pool in member.pools]

    def places(self) -> list[SiteNodes]:
        free = [pool.counts for pool in self._member.pools]
        places = [*self._nodes(free), *self._loose()]
        groups: Counter[tuple[tuple[bool, ...], str, bool, Vector]] = Counter()
        sides = (
            *((pool, left, False) for pool, left in zip(self._member.pools, free, strict=True)),
            *((pool, pool.counts, True) for pool in self._member.potential),
        )
        for pool, left, potential in sides:
            takes, domain = self._of(pool)
            for amounts, nodes in left.items():
                groups[takes, domain, potential, self._space.vector(amounts)] += max(0, nodes)
        for (takes, domain, wide, vector), nodes in sorted(groups.items()):
            if nodes and any(amount > 0 for amount in vector):
                alone = nodes if nodes <= self._alone_max else 1
                if alone < nodes and self._alone_max:
                    self.bounds.add("alone_nodes")
                place = SiteNodes(self._site, nodes // alone, vector, takes, wide=wide, domain=domain)
                places += [place] * alone
        return places

    def _nodes(self, free: list[dict[Amounts, int]]) -> Iterable[SiteNodes]:
        """The nodes that units may leave, taken out of `free`."""
        nodes: dict[str, tuple[Seat, dict[int, Amounts]]] = {}  # the first seat, and what each unit holds
        for index, unit in self._going:
            for seat in unit.seats:
                _, holds = nodes.setdefault(seat.node, (seat, {}))
                holds[index] = holds.get(index, NOTHING).plus(seat.holds)
        for _, (seat, holds) in sorted(nodes.items(), key=itemgetter(0)):
            if not 0 <= seat.pool < len(free):
                continue
            supply = holds.pop(-1, NOTHING)
            if free[seat.pool].get(seat.free, 0) > 0:  # else the inventory moved on meanwhile
                free[seat.pool][seat.free] -= 1
                supply = supply.plus(seat.free)
            takes, domain = self._traits[seat.pool]
            held = tuple((index, self._space.vector(amounts)) for index, amounts in sorted(holds.items()))
            yield SiteNodes(self._site, 1, self._space.vector(supply), takes, held, domain=domain)

    def _loose(self) -> Iterable[SiteNodes]:
        """The places that units without known seats leave behind, one for each pod."""
        for owner, unit in self._going:
            for home, amounts, pods in left_behind(unit, self._member):
                takes, domain = self._traits[home]
                yield SiteNodes(self._site, pods, self._space.vector(amounts), takes, (), owner, domain=domain)

    def _of(self, pool: Pool) -> tuple[tuple[bool, ...], str]:
        takes, domains = self._space.traits(pool)
        domain = [domains[level] for level in self._levels]
        return takes, "/".join(domain) if all(domain) else ""


TOGETHER_PART = 0.7  # of the time, for those
LEAST_S = 0.02  # that a question needs


class VictimSolver:
    """The solver, within the time that one plan may spend on victims. Its answers are kept, for a replay. `bounds`:
    those that forbade a question."""

    def __init__(self, solver: Solver | None, seed: int, limit_s: float) -> None:
        self._solver = solver
        self._seed = seed
        self._left_s = limit_s
        self._kept_s = limit_s * TOGETHER_PART
        self._asked = [0, 0]
        self.bounds: set[str] = set()

    @property
    def absent(self) -> bool:
        return self._solver is None

    def silent(self, *, together: bool) -> Cause | None:
        """Why no further question may be asked; None if one may."""
        bound, most = ("questions_together", BOUNDS.questions_together) if together else ("questions", BOUNDS.questions)
        if self._asked[together] >= most:
            self.bounds.add(bound)
            return Cause(CauseCode.QUESTIONS, {"questions": most})
        return None if self._may_take(together) > LEAST_S else Cause(CauseCode.TIME_OVER)

    def ask(self, problem: VictimProblem, *, together: bool) -> tuple[Answer, Said]:
        assert self._solver is not None
        self._asked[together] += 1
        try:
            answer = self._solver.solve(problem, seed=self._seed, limit_s=self._may_take(together))
        except Exception as error:  # a solver may fail in any way; there is an answer without it
            answer = Answer(cause=Cause(CauseCode.FAILED, {"detail": type(error).__name__}))
        # The time in its answer, not a clock's: so a replay spends the same.
        took = sum(stage.seconds for stage in answer.stages)
        self._left_s = 0.0 if answer.cause is not None else self._left_s - took
        self._kept_s -= took if together else 0.0
        stages = tuple(Stage(s.name, s.value, s.bound, s.status, s.seconds) for s in answer.stages)
        leaves = tuple(index for index, leaves in enumerate(answer.admitted) if leaves)
        return answer, Said(leaves, answer.placed, stages, answer.cause)

    def _may_take(self, together: bool) -> float:
        return self._left_s if together else self._left_s - max(0.0, self._kept_s)


def sound(problem: VictimProblem, answer: Answer) -> bool:
    """Whether the answer is one to this problem."""
    each = [sites for sites, count in zip(problem.gangs, problem.counts, strict=True) for _ in range(count)]
    return (
        len(answer.admitted) == len(problem.victims)
        and all(leaves in (0, 1) for leaves in answer.admitted)
        and len(answer.placed) == sum(problem.counts)
        and all(site in dict(sites) for site, sites in zip(answer.placed, each, strict=True))
    )


@dataclass(frozen=True, slots=True)
class PreemptorGroup:
    """Preemptors alike that room is made for, and the work that each of them may evict. A gang that must lie within a
    value of a label stands for itself."""

    candidates: Sequence[Candidate]
    able: EvictableWork


@dataclass(frozen=True, slots=True)
class VictimQuestion:
    """The work that could leave to some effect, and the question which of it must. `problem`: None where the gangs must
    lie within values of different labels, and where any question is too large. `bounds`: those that made it smaller."""

    works: list[Work]
    problem: VictimProblem | None
    bounds: frozenset[str] = frozenset()


def question(
    state: PreemptionState,
    wanting: Sequence[PreemptorGroup],
    members: Sequence[str],
    sites: Sequence[str],
    answer: Iterable[Work],
) -> VictimQuestion:
    """Return the question over all these members, or over as many of `sites` as make it small enough to ask. `answer`:
    the victims of a known answer in `members`."""
    shapes = [state.space.shapes[gang.candidates[0].shape] for gang in wanting]
    if len({levels_of(shape) for shape in shapes if confined(shape)}) > 1:
        return VictimQuestion([], None)
    lacking = _lacking(state, [candidate for gang in wanting for candidate in gang.candidates])
    needed = {work.unit.id for work in answer}
    bounds = frozenset[str]()
    while True:
        smaller = _question_about(state, wanting, [*members, *sites], lacking, needed)
        bounds |= smaller.bounds
        if smaller.problem is not None or not sites:
            return replace(smaller, bounds=bounds)
        sites = sites[: len(sites) // 2]


def _question_about(
    state: PreemptionState,
    wanting: Sequence[PreemptorGroup],
    sites: Sequence[str],
    lacking: Lacking,
    needed: Container[str],
) -> VictimQuestion:
    exact = state.usage.withholds
    gangs = _choices(wanting, sites)
    works_by_id: dict[str, Work] = {}
    by: dict[str, tuple[int, ...]] = {}
    for gang, alike in enumerate(wanting):
        here = (work for site, _ in gangs[gang] for work in alike.able.at(sites[site]))
        for work in alike.able if lacking or exact else here:
            works_by_id[work.unit.id] = work
            by[work.unit.id] = (*by.get(work.unit.id, ()), gang)
    freed = freeing(state.usage, lacking, works_by_id.values())
    shapes = (state.space.shapes[alike.candidates[0].shape] for alike in wanting)
    parts = [(gang, part) for gang, shape in enumerate(shapes) for part in shape]
    pods = sum(part.replicas * len(wanting[gang].candidates) for gang, part in parts)
    works = _useful(state, works_by_id.values(), by, freed, lacking, sites, pods, needed)
    if len(works) > BOUNDS.victims:
        return VictimQuestion([], None, frozenset({"victims"}))
    index = {member: site for site, member in enumerate(sites)}
    victims: list[Victim] = []
    for work in works:
        site = -1 if exact or work.unit.id in freed else index[work.unit.member or ""]
        victims.append(Victim(not work.borrows, work.lost, site, by[work.unit.id]))
    demands = [Demand(-1, part.replicas, part.need, part.node_claim, gang=gang) for gang, part in parts]
    kinds = {(demand.need, demand.node_claim) for demand in demands}
    levels = max((part.levels for _, part in parts), default=())
    places: list[SiteNodes] = []
    bounds: set[str] = set()
    for site, name in enumerate(sites):
        there = [(number, work.unit) for number, work in enumerate(works) if work.unit.member == name]
        others = beside(state, site, name, there)
        demands += others
        mixed = bool(others) or len(kinds) > 1
        nodes = Site(state, site, state.members[name], there, levels, mixed)
        places += nodes.places()
        bounds |= nodes.bounds
        if len(demands) * len(places) > BOUNDS.cells:
            return VictimQuestion([], None, frozenset({*bounds, "cells"}))
    problem = VictimProblem(
        tuple(victims),
        tuple(sites),
        _freed_rows(works, freed, lacking),
        tuple(places),
        tuple(demands),
        gangs,
        tuple(len(alike.candidates) for alike in wanting),
        tuple(sorted({gang for gang, part in parts if part.levels})),
        hint=tuple(number for number, work in enumerate(works) if work.unit.id in needed),
    )
    return VictimQuestion(works, problem, frozenset(bounds))


def _choices(wanting: Sequence[PreemptorGroup], sites: Sequence[str]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The sites that each gang may go to, each with the number of its choice."""
    gangs = []
    for alike in wanting:
        numbers = {choice.member: number for number, choice in enumerate(alike.candidates[0].eligibility.choices)}
        gangs.append(tuple((site, numbers[member]) for site, member in enumerate(sites) if member in numbers))
    return tuple(gangs)


def _freed_rows(works: Sequence[Work], freed: Mapping[str, tuple[int, ...]], lacking: Lacking) -> tuple[FreedRow, ...]:
    """The amounts of lacking quota that each victim frees, by its number."""
    rows = []
    for row, (_, _, need) in enumerate(lacking):
        amounts = ((number, freed.get(work.unit.id, ())) for number, work in enumerate(works))
        rows.append(FreedRow(tuple((number, frees[row]) for number, frees in amounts if frees and frees[row]), need))
    return tuple(rows)


def _lacking(state: PreemptionState, candidates: Sequence[Candidate]) -> Lacking:
    """The amounts that must leave each quota node for its max to allow all of them."""
    usage, found = state.usage.copy(), dict[tuple[str, str], int]()
    for candidate in candidates:  # a later one lacks the amounts of those before it, too
        found |= {(node, name): need for node, name, need in usage.lacking(candidate.account or "", candidate.request)}
        usage.charge(candidate.account or "", candidate.request)
    return [(node, name, need) for (node, name), need in found.items()]


def _useful(
    state: PreemptionState,
    works: Iterable[Work],
    by: Mapping[str, tuple[int, ...]],
    freed: Mapping[str, tuple[int, ...]],
    lacking: Lacking,
    sites: Sequence[str],
    pods: int,
    needed: Container[str],
) -> list[Work]:
    """Return the cheapest of the works that free the same quota and leave the same room behind: as many as could all
    be of use to so many pods. The `needed` ones are among them."""
    works, exact = sorted(works, key=lambda work: (work.lost, work.unit.id)), state.usage.withholds
    leaving = (unit for units in state.leaving.values() for unit in units)
    on = Counter(node for unit in (*(w.unit for w in works), *leaving) for node in {seat.node for seat in unit.seats})
    crowd = {name: sum(other.replicas for other in beside(state, 0, name, ())) for name in sites}
    counts = Counter[tuple[object, ...]]()
    victims: list[Work] = []
    for work in works:
        unit, frees = work.unit, freed.get(work.unit.id, ())
        most = max((-(-need // n) for n, (_, _, need) in zip(frees, lacking, strict=False) if n), default=0)
        alike: tuple[object, ...] = (work.borrows, frees, by[unit.id])
        if unit.member not in sites:
            most = most or int(exact)
        elif not exact:
            alone = all(on[seat.node] == 1 for seat in unit.seats)
            seats = sorted((seat.pool, seat.free.items_, seat.holds.items_) for seat in unit.seats)
            alike = (*alike, unit.member, (gang_key(unit.components), unit.visible, *seats) if alone else unit.id)
            most += pods + crowd[unit.member or ""]
        counts[alike] += 1
        if counts[alike] <= most or unit.id in needed or (exact and unit.member in sites):
            victims.append(work)
    return victims
