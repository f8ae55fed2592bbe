"""The choice of victims as a problem for the solver: who must leave so that gangs have quota, and room in one member.

Nodes that somebody may leave are places of their own, with what each victim frees there; the others are counted by
their free vectors. Pods that are committed but not seen, and gangs for which room is kept, find room beside the gang.
Quota counts by its max only, and nodes that are counted together as one sum: so the problem may ask for less than is
needed, never for more, and a set that turns out not to suffice comes back as a cut. The first that does is the best.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.gang import gang_key
from fleet.model.matching import domain_of, pool_takes
from fleet.model.member import Member, Pool
from fleet.model.plan import Said, Stage
from fleet.model.unit import Seat, Unit
from fleet.placement.packing.space import Need, Shape
from fleet.placement.preemption.runners import Work
from fleet.placement.preemption.state import Scene
from fleet.placement.problem import Answer, Demand, FreedRow, Place, Solver, Victim, VictimProblem

MOST_VICTIMS = 1_000
MOST_CELLS = 8_000  # demands × places
MOST_QUESTIONS = 24  # to the solver, in one plan, about single gangs
MOST_TOGETHER = 12  # and about several together
TOGETHER_PART = 0.7  # of the time, for those
LEAST_S = 0.02  # that a question needs
ALONE_MAX = 16  # nodes alike that are told apart where different pods meet on them


class Asking:
    """The solver, within what one plan may spend on victims. What it said is kept, so that a replay says it again."""

    def __init__(self, solver: Solver | None, seed: int, limit_s: float) -> None:
        self._solver = solver
        self._seed = seed
        self._left_s = limit_s
        self._kept_s = limit_s * TOGETHER_PART
        self._asked = [0, 0]

    @property
    def absent(self) -> bool:
        return self._solver is None

    def silent(self, *, together: bool = False) -> str:
        """Why it may not be asked any more; "" if it may."""
        if self._solver is None:
            return "no solver was asked"
        most = MOST_TOGETHER if together else MOST_QUESTIONS
        able = self._may_take(together) > LEAST_S and self._asked[together] < most
        return "" if able else "the time for finding victims is over"

    def ask(self, problem: VictimProblem, *, together: bool = False) -> tuple[Answer, Said]:
        assert self._solver is not None
        self._asked[together] += 1
        try:
            answer = self._solver.solve(problem, seed=self._seed, limit_s=self._may_take(together))
        except Exception as error:  # a solver may fail in any way it likes; there is an answer without it
            answer = Answer(why=f"the solver failed ({type(error).__name__})")
        # The time it says it took, not a clock's: so a replay spends the same.
        took = sum(stage.seconds for stage in answer.stages)
        self._left_s = 0.0 if answer.why else self._left_s - took
        self._kept_s -= took if together else 0.0
        stages = tuple(Stage(s.name, s.value, s.bound, s.status, s.seconds) for s in answer.stages)
        leaves = tuple(index for index, leaves in enumerate(answer.admitted) if leaves)
        return answer, Said(leaves, answer.placed, stages, answer.why)

    def _may_take(self, together: bool) -> float:
        return self._left_s if together else self._left_s - max(0.0, self._kept_s)


NOBODY = Asking(None, 0, 0.0)


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
class Wanting:
    """Gangs alike that room is made for: their shape, the sites that they may go to, with their numbers by policy, and
    how many they are; one that must lie within a value of a label stands for itself."""

    shape: Shape
    sites: tuple[tuple[int, int], ...]
    count: int = 1


def question(
    scene: Scene,
    gangs: Sequence[Wanting],
    sites: Sequence[str],
    victims: Sequence[tuple[Unit, Victim]],
    freed: Iterable[FreedRow],
    hint: Iterable[int],
) -> VictimProblem | None:
    """For these gangs, all of which must lie within one value of the same label if any of them must. `hint`: victims,
    by index, that would do. None when it is too large to ask."""
    if len(victims) > MOST_VICTIMS:
        return None
    topologies = {gang.shape[0].topology if gang.shape else 0 for gang in gangs}
    demands = [
        Demand(-1, part.replicas, part.need, part.claim, gang=number)
        for number, gang in enumerate(gangs)
        for part in gang.shape
    ]
    kinds = {(demand.need, demand.claim) for demand in demands}
    places: list[Place] = []
    for site, name in enumerate(sites):
        there = [(index, unit) for index, (unit, _) in enumerate(victims) if unit.member == name]
        beside = _beside(scene, site, name, there)
        demands += beside
        mixed = bool(beside) or len(kinds) > 1
        places += _Site(scene, site, scene.members[name], there, max(topologies, default=0), mixed).places()
        if len(demands) * len(places) > MOST_CELLS:
            return None
    return VictimProblem(
        tuple(victim for _, victim in victims), tuple(sites), tuple(freed), tuple(places), tuple(demands),
        tuple(gang.sites for gang in gangs), tuple(gang.count for gang in gangs),
        tuple(number for number, gang in enumerate(gangs) if gang.shape and gang.shape[0].topology),
        hint=tuple(hint),
    )  # fmt: skip


def enough_of_each(
    scene: Scene,
    works: Sequence[Work],
    pods: int,
    freed: Mapping[str, tuple[int, ...]],
    lacking: Sequence[tuple[str, str, int]],
    rights: Mapping[str, object],
    needed: Container[str],
) -> list[Work]:
    """Of those that leave the same room behind in one member, and free the same quota, the cheapest: as many as could
    all be of use to so many pods. `rights`: for whom each may leave; who is `needed` is in any case."""
    if scene.usage.withholds:
        return list(works)
    on: dict[str, int] = {}  # how many sit on a node
    for unit in (*(work.unit for work in works), *(unit for units in scene.leaving.values() for unit in units)):
        for node in {seat.node for seat in unit.seats}:
            on[node] = on.get(node, 0) + 1
    beside: dict[str | None, int] = {}  # pods that find room there whoever else comes
    for member in {work.unit.member or "" for work in works}:
        shapes = (*scene.kept.get(member, ()), *(shape for _, _, shape in scene.coming.get(member, ())))
        beside[member] = sum(part.replicas for shape in shapes for part in shape)
    counts: dict[tuple[object, ...], int] = {}
    found: list[Work] = []
    for work in sorted(works, key=lambda work: (work.lost, work.unit.id)):
        unit, frees = work.unit, freed.get(work.unit.id, ())
        alone = all(on[seat.node] == 1 for seat in unit.seats)
        seats = sorted((seat.pool, seat.free.items_, seat.holds.items_) for seat in unit.seats)
        room = (gang_key(unit.components), unit.visible, *seats) if alone else unit.id
        alike = (unit.member, work.borrows, frees, rights.get(unit.id), room)
        counts[alike] = counts.get(alike, 0) + 1
        quota = max((-(-need // n) for n, (_, _, need) in zip(frees, lacking, strict=False) if n), default=0)
        if counts[alike] <= pods + beside.get(unit.member, 0) + quota or unit.id in needed:
            found.append(work)
    return found


def _beside(scene: Scene, site: int, name: str, victims: Sequence[tuple[int, Unit]]) -> list[Demand]:
    """Pods that find room in a member whoever else comes: those that are coming, unless they belong to somebody who
    leaves, and those of kept gangs."""
    gone = {unit.id for unit in scene.leaving.get(name, ())}
    numbers = {unit.id: index for index, unit in victims}
    pods: dict[tuple[Need, int], int] = {}
    less: dict[tuple[Need, int], list[tuple[int, int]]] = {}
    coming = ((unit, shape) for unit, _, shape in scene.coming.get(name, ()) if unit not in gone)
    for owner, shape in (*coming, *(("", shape) for shape in scene.kept.get(name, ()))):
        for part in shape:
            key = (part.need, part.claim)
            pods[key] = pods.get(key, 0) + part.replicas
            if owner in numbers:
                less.setdefault(key, []).append((numbers[owner], part.replicas))
    return [
        Demand(site, replicas, need, claim, tuple(less.get((need, claim), ())))
        for (need, claim), replicas in sorted(pods.items())
    ]


@dataclass(slots=True)
class _Node:
    """A node that somebody leaves. `seat`: the first of those on it."""

    seat: Seat
    leaving: Amounts = NOTHING
    holds: dict[int, Amounts] = field(default_factory=dict)


class _Site:
    """The places of one member."""

    def __init__(
        self, scene: Scene, site: int, member: Member, victims: Sequence[tuple[int, Unit]], topology: int, mixed: bool
    ) -> None:
        self._space = scene.space
        self._site = site
        self._member = member
        self._leaving = scene.leaving.get(member.name, ())
        self._victims = victims
        self._topology = scene.space.topologies[topology - 1] if topology else ""
        self._alone_max = ALONE_MAX if mixed else 0
        self._traits: dict[int, tuple[tuple[bool, ...], str]] = {}

    def places(self) -> list[Place]:
        free = [dict(pool.free) for pool in self._member.pools]
        found = [*self._nodes(free), *self._loose()]
        groups: dict[tuple[tuple[bool, ...], str, bool, tuple[int, ...]], int] = {}
        sides = (*((pool, left, False) for pool, left in zip(self._member.pools, free, strict=True)),
                 *((pool, dict(pool.free), True) for pool in self._member.potential))  # fmt: skip
        for pool, left, potential in sides:
            takes, domain = self._of(pool)
            for amounts, nodes in left.items():
                key = (takes, domain, potential, self._vector(amounts))
                groups[key] = groups.get(key, 0) + max(0, nodes)
        for (takes, domain, wide, vector), nodes in sorted(groups.items()):
            if nodes and any(amount > 0 for amount in vector):
                alone = nodes if nodes <= self._alone_max else 1
                found += [
                    Place(self._site, nodes // alone, vector, takes, wide=wide, domain=domain) for _ in range(alone)
                ]
        return found

    def _nodes(self, free: list[dict[Amounts, int]]) -> Iterable[Place]:
        """Nodes that somebody may leave, taken out of `free`."""
        nodes: dict[str, _Node] = {}
        for unit in self._leaving:
            for seat in unit.seats:
                node = nodes.setdefault(seat.node, _Node(seat))
                node.leaving = node.leaving.plus(seat.holds)
        for index, unit in self._victims:
            for seat in unit.seats:
                node = nodes.setdefault(seat.node, _Node(seat))
                node.holds[index] = node.holds.get(index, NOTHING).plus(seat.holds)
        for name in sorted(nodes):
            node = nodes[name]
            if not 0 <= node.seat.pool < len(free):
                continue
            takes, domain = self._of(self._member.pools[node.seat.pool])
            there = free[node.seat.pool]
            before = NOTHING  # the inventory moved on meanwhile: what leaves is there all the same
            if there.get(node.seat.free, 0) > 0:
                there[node.seat.free] -= 1
                before = node.seat.free
            holds = tuple((index, self._vector(amounts)) for index, amounts in sorted(node.holds.items()))
            yield Place(self._site, 1, self._vector(before.plus(node.leaving)), takes, holds, domain=domain)

    def _loose(self) -> Iterable[Place]:
        """Of those whose seats nobody knows, a place for each pod."""
        for owner, unit in (*((-1, unit) for unit in self._leaving), *self._victims):
            seen = dict(unit.visible)
            for component in unit.components if not unit.seats else ():
                pods = min(component.replicas, max(0, seen.get(component.name, 0)))
                home = next((pool for pool in self._member.pools if pool_takes(pool, component.claim)), None)
                if pods and home is not None:
                    takes, domain = self._of(home)
                    vector = self._vector(component.requests)
                    yield Place(self._site, pods, vector, takes, (), owner, domain=domain)

    def _of(self, pool: Pool) -> tuple[tuple[bool, ...], str]:
        known = self._traits.get(id(pool))
        if known is None:
            takes = tuple(pool_takes(pool, claim) for claim in self._space.claims)
            domain = domain_of(pool, self._topology) if self._topology else ""
            known = self._traits[id(pool)] = (takes, domain)
        return known

    def _vector(self, amounts: Amounts) -> tuple[int, ...]:
        have = dict(amounts.items_)
        return tuple(have.get(name, 0) for name in self._space.resources)
