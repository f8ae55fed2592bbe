"""Rows of slots of slots: what the racks of a member take of gangs that must each lie within one.

A rack is to its nodes what a node is to its devices. A node has so many slots of a need, a pod with a larger need takes
some of these, and so a gang takes k of the S slots of its rack. Of gangs in one rack, k_1 + k_2 + … ≤ S, and therefore
floor(k_1 / g) + floor(k_2 / g) + … ≤ floor(S / g) for every g. The sum over all racks is a row that needs no variable
for a rack. It may allow too much, never too little: its bound holds for every plan.

A gang counts in the rows of a level only where its rules keep it within one domain of that level. If each rack lies in
one block, gangs of racks count in the rows of blocks. A row is about the nodes that some claim may use, and counts the
pods that may use no others: in all nodes together, racks of twelve nodes of one model and four of another would have
room for two gangs of eight of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeVar

from fleet.core.model.bounds import BOUNDS
from fleet.core.placement.packing.levels import Levels
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import GangPart, Need, Shape, Space, levels_of, slots
from fleet.core.placement.problem import Lane, LimitRow, Terms

_SLOTS_OF_SLOTS = (1, 2, 4, 8, 16)
_T = TypeVar("_T")


class _Gangs(NamedTuple):
    """The gangs of one lane: its number, the parts of one gang, and how many gangs there are at most."""

    lane: int
    shape: Shape
    cap: int

    def of_claims(self, claims: Set[int]) -> _Gangs:
        """The same gangs with those of their pods alone that carry one of these claims."""
        return self._replace(shape=tuple([part for part in self.shape if part.node_claim in claims]))


def domain_rows(
    room: MemberRoom, lanes: Iterable[tuple[int, Lane]], space: Space
) -> tuple[list[LimitRow], frozenset[str]]:
    """The rows of one member, and the bounds that left out some of them. `lanes`: those into it, with their numbers."""
    gangs = [_Gangs(number, space.shapes[lane.kind.shape], lane.cap) for number, lane in lanes]
    confining = sorted({levels for _, shape, _ in gangs if (levels := levels_of(shape))})
    rows: list[LimitRow] = []
    bounds: set[str] = set()
    for levels in confining:
        inner = {other for other in confining if _lies_in(room, other, levels)}
        here = [gang for gang in gangs if levels_of(gang.shape) in inner]
        domains = [[room.pools[index] for index in ground] for _, ground in room.domains(levels)]
        name = "/".join((room.name, *(space.levels[level] for level in levels)))
        rows += _LevelRows(name, here, domains, space, bounds).rows()
    return rows, frozenset(bounds)


def _lies_in(room: MemberRoom, inner: Levels, outer: Levels) -> bool:
    """Whether every domain of `inner` lies in one domain of `outer`."""
    place = {pool: number for number, (_, ground) in enumerate(room.domains(outer)) for pool in ground}
    places = ({place.get(pool) for pool in ground} for _, ground in room.domains(inner))
    return all(len(found) == 1 and None not in found for found in places)


class _LevelRows:
    """The rows of one member and one set of levels. `bounds` gets those that left out some of them."""

    def __init__(
        self,
        name: str,
        gangs: Sequence[_Gangs],
        domains: Sequence[Sequence[PoolRoom]],
        space: Space,
        bounds: set[str],
    ) -> None:
        self._name = name
        self._gangs = gangs
        self._domains = domains
        self._space = space
        self._bounds = bounds

    def rows(self) -> Iterator[LimitRow]:
        """The tightest row of each sum."""
        tightest: dict[Terms, LimitRow] = {}
        caps = {gang.lane: gang.cap for gang in self._gangs}
        for row in self._all():
            known = tightest.get(row.lanes, row)
            if sum(amount * caps[lane] for lane, amount in row.lanes) > row.room <= known.room:
                tightest[row.lanes] = row
        return iter(tightest.values())

    def _all(self) -> Iterator[LimitRow]:
        """A row for each set of nodes that some claim may use, each need of a slot, and each number of slots."""
        usable = self._usable()
        demand: Counter[frozenset[int]] = Counter()
        for gang in self._gangs:
            for part in gang.shape:
                demand[usable[part.node_claim]] += gang.cap * part.replicas
        for nodes in self._first((), demand):
            claims = {claim for claim, its in usable.items() if its <= nodes}
            gangs = [gang.of_claims(claims) for gang in self._gangs]
            domains = [[pool for pool in domain if id(pool) in nodes] for domain in self._domains]
            for need in self._needs(gangs):
                yield from self._of_need(need, gangs, domains)

    def _usable(self) -> dict[int, frozenset[int]]:
        """The pools that each claim may use, each by its identity."""
        pools = [pool for domain in self._domains for pool in domain]
        claims = dict.fromkeys(part.node_claim for gang in self._gangs for part in gang.shape)
        return {claim: frozenset(id(pool) for pool in pools if pool.takes[claim]) for claim in claims}

    def _of_need(
        self, need: Need, gangs: Sequence[_Gangs], domains: Sequence[Sequence[PoolRoom]]
    ) -> Iterator[LimitRow]:
        what = ", ".join(f"{amount} {self._space.resources[index]}" for index, amount in need)
        have = [
            sum(count * slots(vector, need) for pool in domain for vector, count in pool.counts.items())
            for domain in domains
        ]
        counted = ((gang, sum(part.replicas * _held(part, need) for part in gang.shape)) for gang in gangs)
        taken = [(gang, held) for gang, held in counted if held]
        demand: Counter[int] = Counter()
        for gang, held in taken:
            demand[held] += gang.cap * held
        for size in self._first(_SLOTS_OF_SLOTS, demand):
            terms = tuple((gang.lane, held // size) for gang, held in taken if held >= size)
            yield LimitRow(f"{self._name} {size} slots of {what}", sum(each // size for each in have), lanes=terms)

    def _needs(self, gangs: Sequence[_Gangs]) -> list[Need]:
        """The slots that are counted: devices by size, and whole pods."""
        sizes = [Counter[int]() for _ in range(self._space.devices)]
        pods: Counter[Need] = Counter()
        for gang in gangs:
            for part in gang.shape:
                count = gang.cap * part.replicas
                for resource, amount in part.need:
                    if resource < self._space.devices:
                        sizes[resource][amount] += count * amount
                if len(part.need) > 1 or (part.need and part.need[0][0] >= self._space.devices):
                    pods[part.need] += count
        needs: list[Need] = []
        for resource, demand in enumerate(sizes):
            needs += (((resource, size),) for size in (self._first((1,), demand) if demand else ()))
        return needs + self._first((), pods)

    def _first(self, always: tuple[_T, ...], demand: Mapping[_T, int]) -> list[_T]:
        """`always`, and what is in demand, the biggest demand first, up to a bound."""
        every = list(dict.fromkeys((*always, *sorted(demand, key=lambda one: -demand[one]))))
        if len(every) > BOUNDS.slot_sizes:
            self._bounds.add("slot_sizes")
        return every[: BOUNDS.slot_sizes]


def _held(part: GangPart, need: Need) -> int:
    """How many slots of a need one pod holds, whatever node it lies on."""
    has = dict(part.need)
    return min(has.get(resource, 0) // amount for resource, amount in need)
