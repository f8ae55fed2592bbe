"""The free room of one member once some units have left it, asked many times with other units.

The result is that of `vacated` in fleet/core/model/leaving.py, by what changes: the member is read once. A try counts
the nodes that units leave, and makes each pool with such nodes anew. Pods that are on their way find their nodes before
any unit has left, among the nodes that are free now. Only pods without room now are counted on room that becomes free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add

from fleet.core.model.leaving import left_behind
from fleet.core.model.member import Member
from fleet.core.model.unit import Unit
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.room import MemberRoom, largest_first
from fleet.core.placement.packing.space import Shape, Space, Vector

Moves = Mapping[tuple[int, Vector], Sequence[Vector]]  # what nodes have free now, by pool and by what they had


@dataclass(frozen=True, slots=True)
class _Leaves:
    """The room that one unit leaves behind: on nodes (pool, node, free vector beside it, vector that it holds), and as
    places of its own where its seats are not known (pool, vector, number)."""

    nodes: tuple[tuple[int, str, Vector, Vector], ...]
    places: tuple[tuple[int, Vector, int], ...]


@dataclass(frozen=True, slots=True)
class _LandedMember:
    """A member with the pods that are on their way. `late`: the shapes without room there yet."""

    room: MemberRoom
    late: tuple[Shape, ...]
    moves: Moves


class Inventory:
    """A member as the inventory shows it. `room`: the same in the terms of the decision."""

    def __init__(self, member: Member, room: MemberRoom, space: Space) -> None:
        self.room = room
        self.space = space
        self._member = member
        self._known: dict[str, _Leaves] = {}
        kinds = {(pool.takes, pool.domains): at for at, pool in enumerate(room.pools) if not pool.potential}
        self._kinds = [kinds.get(space.traits(pool), -1) for pool in member.pools]

    def left_by(self, unit: Unit) -> _Leaves:
        leaves = self._known.get(unit.id)
        if leaves is None:
            vector, kinds = self.space.vector, self._kinds
            seats = [seat for seat in unit.seats if 0 <= seat.pool < len(kinds) and kinds[seat.pool] >= 0]
            nodes = ((kinds[seat.pool], seat.node, vector(seat.free), vector(seat.holds)) for seat in seats)
            behind = ((kinds[home], vector(amounts), pods) for home, amounts, pods in left_behind(unit, self._member))
            places = (place for place in behind if place[0] >= 0)
            leaves = self._known[unit.id] = _Leaves(tuple(nodes), tuple(places))
        return leaves


class Vacancy:
    """One member in one state of a plan: `leaving` have left it in any case; `coming` (unit, member, shape) come before
    they do, and `claims` have room before any other gang."""

    def __init__(
        self,
        inventory: Inventory,
        leaving: Iterable[Unit],
        coming: Iterable[tuple[str, str, Shape]],
        claims: Iterable[Shape],
    ) -> None:
        self._inventory = inventory
        self._space = inventory.space
        self._leaving = tuple(leaving)
        gone = {unit.id for unit in self._leaving}
        self._coming = largest_first([item for item in coming if item[0] not in gone], self._space)
        self._kept = tuple(claims)
        self._beside: dict[frozenset[str], _LandedMember] = {}

    def fits(self, shape: Shape, units: Iterable[Unit], beside: Iterable[Shape] = ()) -> bool:
        """Whether a gang of this shape finds room `beside` others once these units have left, too."""
        units, devices = tuple(units), self._space.devices
        landed = self._landed(frozenset(unit.id for unit in units))
        after = self._after(landed, units)
        others = (*self._kept, *beside)
        if None in [after.hold(other, devices) for other in (*landed.late, *others)] and others:
            names = {unit.id for unit in units}
            items = [item for item in self._coming if item[0] not in names]
            items += [("", "", other) for other in others]
            anew = self._after(_LandedMember(self._inventory.room, (), {}), units)
            if None not in [anew.hold(item[2], devices) for item in largest_first(items, self._space)]:
                after = anew  # as the next cycle lays them out, largest first
        return after.fit(shape, devices) is not None

    def _landed(self, ids: frozenset[str]) -> _LandedMember:
        """The member as it is now, with the pods that come, but for pods of the units with these `ids`."""
        stay_out = ids.intersection(item[0] for item in self._coming)
        landed = self._beside.get(stay_out)
        if landed is None:
            room, late, devices = self._inventory.room.copy(), list[Shape](), self._space.devices
            firsts: dict[tuple[int, Vector], list[Vector]] = {}  # what nodes had at first, by pool and what they have
            for shape in (shape for unit, _, shape in self._coming if unit not in stay_out):
                fit = room.fit(shape, devices) or room.fit(shape, devices, potential=True)
                if fit is None:
                    late.append(shape)
                    continue
                moved = [
                    (index, (firsts.get((index, before)) or [before]).pop(), after)
                    for index, before, after in _moves(room.pools, fit.pools)
                ]
                for index, first, after in moved:
                    firsts.setdefault((index, after), []).append(first)
                room.take(fit)
            moves: dict[tuple[int, Vector], list[Vector]] = {}
            for (index, after), nodes in firsts.items():
                for first in nodes:
                    moves.setdefault((index, first), []).append(after)
            landed = self._beside[stay_out] = _LandedMember(room, tuple(late), moves)
        return landed

    def _after(self, landed: _LandedMember, units: Iterable[Unit]) -> MemberRoom:
        nodes: dict[str, tuple[int, Vector, Vector]] = {}  # pool, what is free, what becomes free
        places: list[tuple[int, Vector, int]] = []
        for leaves in map(self._inventory.left_by, (*self._leaving, *units)):
            for index, node, free, holds in leaves.nodes:
                known = nodes.get(node)
                nodes[node] = (index, free, holds) if known is None else (*known[:2], _sum(known[2], holds))
            places += leaves.places
        pools, more = list(landed.room.pools), dict[int, dict[Vector, int]]()
        moves = {key: list(vectors) for key, vectors in landed.moves.items()}
        departures: dict[tuple[int, Vector], int] = {}
        for index, free, holds in nodes.values():
            before, counts = (index, free), pools[index].counts
            if moves.get(before) and counts.get(free, 0) <= departures.get(before, 0):
                before = (index, moves[before].pop())  # pods that are coming lie there
            departures[before] = departures.get(before, 0) + 1
            if counts.get(before[1], 0) < departures[before]:  # the inventory moved on meanwhile
                places.append((index, holds, 1))
                continue
            changes, after = more.setdefault(index, {}), _sum(before[1], holds)
            changes[before[1]] = changes.get(before[1], 0) - 1
            changes[after] = changes.get(after, 0) + 1
        for index, vector, count in places:
            changes = more.setdefault(index, {})
            changes[vector] = changes.get(vector, 0) + count
        for index, changes in more.items():
            pools[index] = pools[index].changed(changes)
        return landed.room.with_pools(tuple(pools))


def _sum(one: Vector, other: Vector) -> Vector:
    return tuple(map(add, one, other))


def _moves(before: Sequence[PoolRoom], after: Sequence[PoolRoom]) -> Iterator[tuple[int, Vector, Vector]]:
    """The nodes that a gang landed on: pool, free vector before and after. Vectors have no names, so each vector that
    is gone is matched with a likely new one."""
    for index, (had, has) in enumerate(zip(before, after, strict=True)):
        if had is has:
            continue
        new = [v for v in reversed(has.keys) for _ in range(has.counts[v] - had.counts.get(v, 0))]
        for vector in reversed(had.keys):
            for _ in range(had.counts[vector] - has.counts.get(vector, 0)):
                low = (v for v in new if all(left <= free for left, free in zip(v, vector, strict=True)))
                to = next(low, None)
                if to is not None:
                    new.remove(to)
                    yield index, vector, to
