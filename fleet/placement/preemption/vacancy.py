"""The free room of one member once some units have left it, asked many times with other units.

As `vacated` of fleet/model/leaving.py says it, but on the vectors of one decision and by what changes: the member is
read once, and a try moves the nodes that are left and copies the pools in which they lie. Pods that are on their way
find their nodes before any unit has left, so they lie on nodes that are free now. Only pods without room now are
counted on room that becomes free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.model.leaving import left_behind
from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.placement.packing.room import MemberRoom, PoolRoom, largest_first
from fleet.placement.packing.space import Shape, Space, Vector


@dataclass(frozen=True, slots=True)
class _Leaves:
    """What one unit leaves behind: on nodes (pool, node, what is free beside it, what it holds there), and as places of
    its own where its seats are not known (pool, vector, how many)."""

    nodes: tuple[tuple[int, str, Vector, Vector], ...]
    places: tuple[tuple[int, Vector, int], ...]


@dataclass(frozen=True, slots=True)
class _Landed:
    """A member with what is coming. `late`: what has no room there yet. `moves`: what nodes have free then, by pool and
    by what they had."""

    room: MemberRoom
    late: tuple[Shape, ...]
    moves: Mapping[tuple[int, Vector], Sequence[Vector]]


class Vacancy:
    """One member in one state of a plan: `leaving` have left it in any case; `coming` (unit, member, shape) come before
    they do, and `kept` have room before anybody else."""

    def __init__(
        self,
        member: Member,
        space: Space,
        leaving: Iterable[Unit],
        coming: Sequence[tuple[str, str, Shape]],
        kept: Sequence[Shape],
        like: Vacancy | None = None,
    ) -> None:
        """`like`: one of the same member and space, which has read them already."""
        self._member = member
        self._space = space
        self._room: MemberRoom = MemberRoom.of(member, space) if like is None else like._room
        self._leaving = tuple(leaving)
        gone = {unit.id for unit in self._leaving}
        self._coming = largest_first([item for item in coming if item[0] not in gone], space)
        self._kept = tuple(kept)
        self._beside: dict[frozenset[str], _Landed] = {}
        self._known: dict[str, _Leaves] = {}
        self._kinds: list[int] = []
        if like is not None:
            self._kinds, self._known = like._kinds, like._known
            return
        kinds = {
            (pool.takes, pool.domains): number
            for number, pool in enumerate(self._room.pools)
            if not pool.potential
        }  # fmt: skip
        self._kinds = [kinds.get(space.traits(pool), -1) for pool in member.pools]

    def fits(self, shape: Shape, gone: Iterable[Unit]) -> bool:
        """Whether a gang of this shape finds room once these have left, too."""
        gone, devices = tuple(gone), self._space.devices
        landed = self._landed(gone)
        after = self._after(landed, gone)
        if None in [after.hold(other, devices) for other in (*landed.late, *self._kept)] and self._kept:
            names = {unit.id for unit in gone}
            coming = [item for item in self._coming if item[0] not in names]
            kept = [("", self._member.name, other) for other in self._kept]
            anew = self._after(_Landed(self._room, (), {}), gone)
            if None not in [anew.hold(item[2], devices) for item in largest_first([*coming, *kept], self._space)]:
                after = anew
        return after.fit(shape, devices) is not None

    def _landed(self, gone: Iterable[Unit]) -> _Landed:
        """The member as it is now, with what is coming, but for those of `gone` that are still coming themselves."""
        names = frozenset(unit.id for unit in gone)
        stay_out = frozenset(unit for unit, _, _ in self._coming if unit in names)
        found = self._beside.get(stay_out)
        if found is None:
            room, moved = self._room.copy(), _Moved()
            late: list[Shape] = []
            for unit, _, shape in self._coming:
                if unit in stay_out:
                    continue
                fit = room.fit(shape, self._space.devices) or room.fit(shape, self._space.devices, potential=True)
                if fit is not None:
                    moved.see(room.pools, fit.pools)
                    room.take(fit)
                else:
                    late.append(shape)
            found = self._beside[stay_out] = _Landed(room, tuple(late), moved.moves())
        return found

    def _after(self, landed: _Landed, gone: Iterable[Unit]) -> MemberRoom:
        pools = list(landed.room.pools)
        moves = {key: list(vectors) for key, vectors in landed.moves.items()}
        own: set[int] = set()
        at: dict[str, tuple[int, Vector]] = {}  # where a node stands now, if somebody has left it
        named: Counter[tuple[int, Vector]] = Counter()  # how many of those nodes stand there

        def changing(index: int) -> PoolRoom:
            if index not in own:
                pools[index] = pools[index].copy()
                own.add(index)
            return pools[index]

        for unit in (*self._leaving, *gone):
            leaves = self._of(unit)
            for index, node, free, held in leaves.nodes:
                pool = changing(index)
                if node in at:
                    index, before = at[node]
                    pool = changing(index)
                    named[index, before] -= 1
                else:
                    before = free
                    if pool.counts.get(before, 0) <= named[index, before] and moves.get((index, free)):
                        before = moves[index, free].pop()  # pods that are coming lie there
                    if pool.counts.get(before, 0) <= named[index, before]:  # the inventory moved on meanwhile
                        before = (0,) * len(held)
                        pool.put(before, 1)
                after = tuple(have + more for have, more in zip(before, held, strict=True))
                pool.move(before, after, 1)
                at[node] = (index, after)
                named[index, after] += 1
            for index, vector, count in leaves.places:
                changing(index).put(vector, count)
        return MemberRoom(self._member.name, tuple(pools), self._space.reached)

    def _of(self, unit: Unit) -> _Leaves:
        known = self._known.get(unit.id)
        if known is None:
            known = self._known[unit.id] = self._read(unit)
        return known

    def _read(self, unit: Unit) -> _Leaves:
        nodes = tuple(
            (self._kinds[seat.pool], seat.node, self._space.vector(seat.free), self._space.vector(seat.holds))
            for seat in unit.seats
            if 0 <= seat.pool < len(self._kinds) and self._kinds[seat.pool] >= 0
        )
        behind = left_behind(unit, self._member)
        known = ((self._kinds[home], self._space.vector(amounts), pods) for home, amounts, pods in behind)
        return _Leaves(nodes, tuple(place for place in known if place[0] >= 0))


class _Moved:
    """Which nodes gangs land on, one gang after another: what each of them had at first, by what it has now."""

    def __init__(self) -> None:
        self._had: dict[tuple[int, Vector], list[Vector]] = {}

    def see(self, before: Sequence[PoolRoom], after: Sequence[PoolRoom]) -> None:
        """Count a gang. Vectors have no names, so each node that has less becomes a likely one of those after it."""
        come: list[tuple[int, Vector, Vector]] = []
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
                        moved = self._had.get((index, vector))
                        come.append((index, moved.pop() if moved else vector, to))
        for index, first, to in come:
            self._had.setdefault((index, to), []).append(first)

    def moves(self) -> Mapping[tuple[int, Vector], Sequence[Vector]]:
        """What nodes have now, by pool and by what they had at first."""
        found: dict[tuple[int, Vector], list[Vector]] = {}
        for (index, to), firsts in self._had.items():
            for first in firsts:
                found.setdefault((index, first), []).append(to)
        return found
