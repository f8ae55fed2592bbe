"""The nodes of one member at the start of a reservation: each with what is free now and what will be free then.

A member's scheduler puts pods onto nodes, not Fleet, and most schedulers spread: a pod of one GPU may land on the very
node that a pod of eight waits for. So a unit that starts beside a reservation and outlasts its start is counted where
it does the most harm. While the reserved gang still fits what is left, it fits wherever those pods really land.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.leaving import left_behind
from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.placement.packing.room import MemberRoom, Part, PoolRoom
from fleet.placement.packing.space import Need, Shape, Space, Vector, slots

Pair = tuple[Vector, Vector]  # of one node: free now, and free once what must end has ended
_MOST_STEPS = 2000


class NodeTable:
    """The nodes of a member, read once."""

    def __init__(self, member: Member, space: Space) -> None:
        self._member = member
        self._space = space
        self._rooms: list[PoolRoom | None] = []
        for pool in member.pools:
            made = MemberRoom.of(replace(member, pools=(pool,), potential=()), space).pools
            self._rooms.append(made[0] if made else None)

    def once_gone(self, ended: Iterable[Unit]) -> SpanNodes:
        """The nodes once the visible pods of `ended` are gone. What a unit without known seats leaves behind
        lies on nodes where nothing is free now."""
        pools = [dict(pool.free) for pool in self._member.pools]
        pairs: list[dict[Pair, int]] = [{} for _ in pools]
        vector = cache(self._space.vector)
        full = vector(NOTHING)
        leaving: dict[str, tuple[int, Amounts, Amounts]] = {}
        for unit in ended:
            for seat in unit.seats:
                known = leaving.get(seat.node)
                held = seat.holds if known is None else known[2].plus(seat.holds)
                leaving[seat.node] = (seat.pool, seat.free, held)
            for home, amounts, pods in left_behind(unit, self._member):
                _add(pairs[home], (full, vector(amounts)), pods)
        for index, free, held in leaving.values():
            if not 0 <= index < len(pools):
                continue
            if pools[index].get(free, 0) > 0:
                pools[index][free] -= 1
                _add(pairs[index], (vector(free), vector(free.plus(held))), 1)
            else:  # the inventory moved on meanwhile
                _add(pairs[index], (full, vector(held)), 1)
        rooms: list[PoolRoom] = []
        kept: list[dict[Pair, int]] = []
        for made, counts, free_now in zip(self._rooms, pairs, pools, strict=True):
            if made is None:
                continue
            for amounts, nodes in free_now.items():
                if nodes > 0:
                    _add(counts, (vector(amounts), vector(amounts)), nodes)
            later: dict[Vector, int] = {}
            for (_, then), nodes in counts.items():
                later[then] = later.get(then, 0) + nodes
            rooms.append(PoolRoom(made.takes, later, domains=made.domains))
            kept.append(counts)
        return SpanNodes(MemberRoom(self._member.name, tuple(rooms)), kept, self._space.devices)


class SpanNodes:
    """See the module. Changes with what is counted in it."""

    def __init__(self, later: MemberRoom, pairs: list[dict[Pair, int]], devices: int) -> None:
        self._later = later
        self._pairs = pairs
        self._devices = devices

    def copy(self) -> SpanNodes:
        return SpanNodes(self._later.copy(), [dict(counts) for counts in self._pairs], self._devices)

    def takes(self, shape: Shape) -> bool:
        """Whether the gang fits, once what must end has ended."""
        return self._later.fit(shape, self._devices) is not None

    def give(self, shape: Shape) -> bool:
        """Set room for another gang apart that comes later still; False, and nothing changed, where there is none."""
        fit = self._later.fit(shape, self._devices)
        if fit is None:
            return False
        for number, (before, after) in enumerate(zip(self._later.pools, fit.pools, strict=True)):
            if before is not after:
                self._pairs[number] = _matched(self._pairs[number], after)
        self._later = MemberRoom(self._later.name, fit.pools)
        return True

    def crowd(self, shape: Shape, head: Shape) -> bool:
        """Count pods that come now where they leave the least room for `head`; False if not all have a node now."""
        later = [pool.copy() for pool in self._later.pools]
        whole = True
        for part in shape:
            whole = self._spread(part, head, later) and whole
        self._later = MemberRoom(self._later.name, tuple(later))
        return whole

    def _spread(self, part: Part, head: Shape, later: list[PoolRoom]) -> bool:
        left = part.replicas if part.need else 0
        for _ in range(_MOST_STEPS):
            if not left:
                return True
            worst: tuple[tuple[int, ...], int, Pair] | None = None
            for number, counts in enumerate(self._pairs):
                if not later[number].takes[part.claim]:
                    continue
                for pair in counts:
                    if slots(pair[0], part.need):
                        harm = (_harm(pair[1], part.need, head, later[number].takes), number, pair)
                        if worst is None or harm > worst:
                            worst = harm
            if worst is None:
                return False
            _, number, pair = worst
            nodes = min(left, self._pairs[number][pair])
            after = (_less(pair[0], part.need), _less(pair[1], part.need))
            later[number].move(pair[1], after[1], nodes)
            _add(self._pairs[number], pair, -nodes)
            _add(self._pairs[number], after, nodes)
            left -= nodes
        return False


def _harm(later: Vector, need: Need, head: Shape, takes: Sequence[bool]) -> tuple[int, ...]:
    """How many places of the head's pods one pod with this need costs on a node; among equals, how close it brings
    the node to losing the next."""
    after = _less(later, need)
    mine = [part for part in head if takes[part.claim]]
    lost = tuple(slots(later, part.need) - slots(after, part.need) for part in mine)
    slack = tuple(-(after[part.need[0][0]] % part.need[0][1]) for part in mine if part.need)
    return (*lost, 0, *slack) if mine else (-1,)


def _less(vector: Vector, need: Need) -> Vector:
    after = list(vector)
    for index, amount in need:
        after[index] -= amount
    return tuple(after)


def _add(counts: dict[Pair, int], pair: Pair, nodes: int) -> None:
    left = counts.get(pair, 0) + nodes
    if left > 0:
        counts[pair] = left
    else:
        counts.pop(pair, None)


def _matched(pairs: dict[Pair, int], after: PoolRoom) -> dict[Pair, int]:
    """The same nodes with `after` free later: those that changed are taken from the nodes with the least free now."""
    left = dict(after.counts)
    found: dict[Pair, int] = {}
    changed: list[tuple[Vector, int]] = []
    for (now, later), nodes in sorted(pairs.items(), reverse=True):
        same = min(nodes, left.get(later, 0))
        if same:
            left[later] -= same
            _add(found, (now, later), same)
        if nodes > same:
            changed.append((now, nodes - same))
    rest = sorted((later, nodes) for later, nodes in left.items() if nodes)
    for now, nodes in changed:
        while nodes and rest:
            later, count = rest.pop()
            taken = min(nodes, count)
            _add(found, (now, later), taken)
            nodes -= taken
            if count > taken:
                rest.append((later, count - taken))
    return found
