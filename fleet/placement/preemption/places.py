"""The places of one member for the solver: nodes that victims may leave, and free nodes counted by their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.leaving import left_behind
from fleet.model.member import Member, Pool
from fleet.model.unit import Seat, Unit
from fleet.placement.packing.space import Need
from fleet.placement.preemption.state import State
from fleet.placement.problem import Demand, Place

ALONE_MAX = 16  # nodes alike that are told apart where different pods meet on them


def beside(state: State, site: int, name: str, victims: Sequence[tuple[int, Unit]]) -> list[Demand]:
    """Pods that find room in a member beside the gangs: pods that are coming, but for those of units that leave, and
    pods of gangs for which room is kept."""
    gone = {unit.id for unit in state.leaving.get(name, ())}
    numbers = {unit.id: index for index, unit in victims}
    pods: dict[tuple[Need, int], int] = {}
    less: dict[tuple[Need, int], list[tuple[int, int]]] = {}
    coming = ((unit, shape) for unit, _, shape in state.coming.get(name, ()) if unit not in gone)
    for owner, shape in (*coming, *(("", shape) for shape in state.kept.get(name, ()))):
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
    """A node that units may leave. `seat`: the first seat on it."""

    seat: Seat
    leaving: Amounts = NOTHING
    holds: dict[int, Amounts] = field(default_factory=dict)


class Site:
    """The places of one member."""

    def __init__(
        self, state: State, site: int, member: Member, victims: Sequence[tuple[int, Unit]], topology: int, mixed: bool
    ) -> None:
        self._space = state.space
        self._site = site
        self._member = member
        self._leaving = state.leaving.get(member.name, ())
        self._victims = victims
        self._topology = topology
        self._alone_max = ALONE_MAX if mixed else 0
        self._traits = [self._of(pool) for pool in member.pools]

    def places(self) -> list[Place]:
        free = [dict(pool.free) for pool in self._member.pools]
        found = [*self._nodes(free), *self._loose()]
        groups: dict[tuple[tuple[bool, ...], str, bool, tuple[int, ...]], int] = {}
        sides = (*((pool, left, False) for pool, left in zip(self._member.pools, free, strict=True)),
                 *((pool, dict(pool.free), True) for pool in self._member.potential))  # fmt: skip
        for pool, left, potential in sides:
            takes, domain = self._of(pool)
            for amounts, nodes in left.items():
                key = (takes, domain, potential, self._space.vector(amounts))
                groups[key] = groups.get(key, 0) + max(0, nodes)
        for (takes, domain, wide, vector), nodes in sorted(groups.items()):
            if nodes and any(amount > 0 for amount in vector):
                alone = nodes if nodes <= self._alone_max else 1
                found += [
                    Place(self._site, nodes // alone, vector, takes, wide=wide, domain=domain) for _ in range(alone)
                ]
        return found

    def _nodes(self, free: list[dict[Amounts, int]]) -> Iterable[Place]:
        """The nodes that units may leave, taken out of `free`."""
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
            takes, domain = self._traits[node.seat.pool]
            there = free[node.seat.pool]
            before = NOTHING  # the inventory moved on meanwhile: what leaves is there all the same
            if there.get(node.seat.free, 0) > 0:
                there[node.seat.free] -= 1
                before = node.seat.free
            holds = tuple((index, self._space.vector(amounts)) for index, amounts in sorted(node.holds.items()))
            yield Place(self._site, 1, self._space.vector(before.plus(node.leaving)), takes, holds, domain=domain)

    def _loose(self) -> Iterable[Place]:
        """The places that units without known seats leave behind, one for each pod."""
        for owner, unit in (*((-1, unit) for unit in self._leaving), *self._victims):
            for home, amounts, pods in left_behind(unit, self._member):
                takes, domain = self._traits[home]
                yield Place(self._site, pods, self._space.vector(amounts), takes, (), owner, domain=domain)

    def _of(self, pool: Pool) -> tuple[tuple[bool, ...], str]:
        takes, domains = self._space.traits(pool)
        return takes, domains[self._topology - 1] if self._topology else ""
