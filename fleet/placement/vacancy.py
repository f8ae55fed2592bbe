"""What one member has free once some have left it, asked many times with other leavers.

As `vacated` of fleet/model/leaving.py says it, but on the vectors of one decision and by what changes: the member is
read once, and a try moves the nodes that are left and copies the pools in which they lie.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.matching import domain_of, pool_takes
from fleet.model.member import Member, Pool
from fleet.model.unit import Unit
from fleet.placement.room import MemberRoom, PoolRoom, largest_first
from fleet.placement.space import Shape, Space, Vector


@dataclass(frozen=True, slots=True)
class _Leaves:
    """What one unit leaves behind: on nodes (pool, node, what is free beside it, what it holds there), and as places of
    its own where its seats are not known (pool, vector, how many)."""

    nodes: tuple[tuple[int, str, Vector, Vector], ...]
    places: tuple[tuple[int, Vector, int], ...]


class Vacancy:
    """One member in one state of a plan: `leaving` have left it in any case; `coming` (unit, member, shape) and `kept`
    have room before anybody else."""

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
        self._kinds = [kinds.get(self._kind(pool), -1) for pool in member.pools]

    def fits(self, shape: Shape, gone: Iterable[Unit]) -> bool:
        """Whether a gang of this shape finds room once these have left, too."""
        after = self._after(gone)
        names = {unit.id for unit in gone}
        for unit, _, coming in self._coming:
            if unit not in names:
                after.hold(coming, self._space.devices)
        for kept in self._kept:
            after.hold(kept, self._space.devices)
        return after.fit(shape, self._space.devices) is not None

    def _after(self, gone: Iterable[Unit]) -> MemberRoom:
        pools = list(self._room.pools)
        own: set[int] = set()
        at: dict[str, tuple[int, Vector]] = {}  # where a node stands now, if somebody has left it

        def changing(index: int) -> PoolRoom:
            if index not in own:
                pools[index] = pools[index].copy()
                own.add(index)
            return pools[index]

        for unit in (*self._leaving, *gone):
            leaves = self._of(unit)
            for index, node, free, held in leaves.nodes:
                pool = changing(index)
                known = at.get(node)
                if known is None and not pool.counts.get(free, 0):  # the inventory moved on meanwhile
                    at[node] = (index, held)
                    _add(pool, held, 1)
                    continue
                before = free if known is None else known[1]
                after = tuple(have + more for have, more in zip(before, held, strict=True))
                pool.move(before, after, 1)
                at[node] = (index, after)
            for index, vector, count in leaves.places:
                _add(changing(index), vector, count)
        return MemberRoom(self._member.name, tuple(pools))

    def _of(self, unit: Unit) -> _Leaves:
        known = self._known.get(unit.id)
        if known is None:
            known = self._known[unit.id] = self._read(unit)
        return known

    def _read(self, unit: Unit) -> _Leaves:
        nodes = tuple(
            (self._kinds[seat.pool], seat.node, self._vector(seat.free), self._vector(seat.holds))
            for seat in unit.seats
            if 0 <= seat.pool < len(self._kinds) and self._kinds[seat.pool] >= 0
        )
        places: list[tuple[int, Vector, int]] = []
        seen = dict(unit.visible)
        for component in unit.components if not unit.seats else ():
            pods = min(component.replicas, max(0, seen.get(component.name, 0)))
            pools = enumerate(self._member.pools)
            home = next((number for number, pool in pools if pool_takes(pool, component.claim)), None)
            if pods and home is not None and self._kinds[home] >= 0:
                places.append((self._kinds[home], self._vector(component.requests), pods))
        return _Leaves(nodes, tuple(places))

    def _kind(self, pool: Pool) -> tuple[tuple[bool, ...], tuple[str, ...]]:
        takes = tuple(pool_takes(pool, claim) for claim in self._space.claims)
        return takes, tuple(domain_of(pool, topology) for topology in self._space.topologies)

    def _vector(self, amounts: Amounts) -> Vector:
        have = dict(amounts.items_)
        return tuple(have.get(name, 0) for name in self._space.resources)


def _add(pool: PoolRoom, vector: Vector, nodes: int) -> None:
    if vector in pool.counts:
        pool.counts[vector] += nodes
    else:
        pool.counts[vector] = nodes
        insort(pool.keys, vector)
