"""A reservation: room in one member, and quota along its path, kept for one unit from an expected start on; and its
span in the profile: what its member and its quota have at that start, beside all that will be there then.

As in EASY and conservative backfill, a unit that comes later in service order starts only where every reservation
that binds it is spared. A *claim* binds all other units from now on, so its room and quota leave the profile. A *head*
starts when enough of what runs has ended; until then units that end in time may use its room. A unit that is Reserved
needs none: its room is *held* in the profile as if it ran.

A unit that ends before the start takes nothing from a span. A unit that outlasts the start is counted in the usage of
the quota path, and at the nodes where it does the most harm: a member's scheduler puts pods onto nodes, not Fleet, and
most schedulers spread. A pod of one GPU may land on the very node that a pod of eight waits for. A reserved gang that
still fits beside the harm fits wherever the pods really land.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.leaving import left_behind
from fleet.core.model.member import Member
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import GangPart, Need, Shape, Space, Vector, slots
from fleet.core.quota.usage import Usage


class SpanKind(StrEnum):
    CLAIM = "claim"  # its victims are leaving
    HEAD = "head"  # its unit waited past the bound


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room for the shape of `holder` in `member`, and quota for its request along the path of its account.

    Times are epoch seconds. `start` is expected; where it is not `certain`, units of unknown length must end, too.
    `since`: units of unknown length that started later do not give way before it. `overdue`: the reservation
    binds guaranteed units of other leaves as well. `lent`: the holder cannot start before its leaf has quota, so units
    of other leaves from which it may take the room back use it meanwhile.
    """

    kind: SpanKind
    holder: Candidate
    member: str
    start: float
    since: float
    certain: bool = True
    overdue: bool = False
    lent: bool = False

    def binds(self, unit: Unit, tier: Tier) -> bool:
        """Whether a unit of this tier comes after the reservation, and may start only where it spares that.

        A reservation binds its whole leaf but for higher priorities, and other leaves by tier, then priority. Between
        equal ones the reservation comes first."""
        holder = self.holder
        if self.kind is SpanKind.CLAIM:
            return True
        if unit.leaf == holder.unit.leaf:
            return unit.priority <= holder.unit.priority
        if self.lends_to(unit, tier):
            return False
        return self.overdue or (tier, -unit.priority) >= (holder.tier, -holder.unit.priority)

    def lends_to(self, unit: Unit, tier: Tier) -> bool:
        """Whether a unit of this tier may use the room, since the holder takes it back once it can start."""
        holder = self.holder
        able = unit.leaf != holder.unit.leaf and unit.preemptible
        return self.lent and able and tier > holder.tier and unit.priority <= holder.unit.priority


Pair = tuple[Vector, Vector]  # of one node: free now, and free once what must end has ended
# The places that one pod with a need costs a head on a node of a pool; None where the pod has no room now. Worked out
# once for each member.
Harms = dict[tuple[Need, Shape], dict[tuple[int, Pair], "tuple[int, ...] | None"]]


class NodeTable:
    """The nodes of a member, read once."""

    def __init__(self, member: Member, space: Space) -> None:
        self._member = member
        self._space = space
        self._harms: Harms = {}
        self._rooms: list[PoolRoom | None] = []
        for pool in member.pools:
            made = MemberRoom.of(replace(member, pools=(pool,), potential=()), space).pools
            self._rooms.append(made[0] if made else None)

    def once_gone(self, ended: Iterable[Unit]) -> SpanNodes:
        """The nodes once the visible pods of `ended` are gone. The room that a unit without known seats leaves
        behind lies on nodes where nothing is free now."""
        pools = [pool.counts for pool in self._member.pools]
        pairs: list[dict[Pair, int]] = [{} for _ in pools]
        vector = cache(self._space.vector)
        full = vector(NOTHING)
        leaving: dict[str, tuple[int, Amounts, Amounts]] = {}
        for unit in ended:
            for seat in unit.seats:
                known = leaving.get(seat.node)
                total = seat.holds if known is None else known[2].plus(seat.holds)
                leaving[seat.node] = (seat.pool, seat.free, total)
            for home, amounts, pods in left_behind(unit, self._member):
                _add(pairs[home], (full, vector(amounts)), pods)
        for index, free, total in leaving.values():
            if not 0 <= index < len(pools):
                continue
            if pools[index].get(free, 0) > 0:
                pools[index][free] -= 1
                _add(pairs[index], (vector(free), vector(free.plus(total))), 1)
            else:  # the inventory moved on meanwhile
                _add(pairs[index], (full, vector(total)), 1)
        rooms: list[PoolRoom] = []
        counts_by_room: list[dict[Pair, int]] = []
        for room, counts, free_now in zip(self._rooms, pairs, pools, strict=True):
            if room is None:
                continue
            for amounts, nodes in free_now.items():
                if nodes > 0:
                    _add(counts, (vector(amounts), vector(amounts)), nodes)
            later: dict[Vector, int] = {}
            for (_, then), nodes in counts.items():
                later[then] = later.get(then, 0) + nodes
            rooms.append(PoolRoom(room.takes, later, domains=room.domains))
            counts_by_room.append(counts)
        later_room = MemberRoom(self._member.name, tuple(rooms), self._space.effort)
        return SpanNodes(later_room, counts_by_room, self._space.devices, self._harms)


class SpanNodes:
    """The nodes of a member at the start of a reservation. Only `give` and `crowd` change it: each counts one more
    gang. A value of its own for each gang would be a copy of all nodes."""

    def __init__(self, later: MemberRoom, pairs: list[dict[Pair, int]], devices: int, harms: Harms) -> None:
        self._later = later
        self._pairs = pairs
        self._devices = devices
        self._harms = harms

    def copy(self) -> SpanNodes:
        return SpanNodes(self._later.copy(), [dict(counts) for counts in self._pairs], self._devices, self._harms)

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
        self._later = self._later.with_pools(fit.pools)
        return True

    def crowd(self, shape: Shape, head: Shape) -> bool:
        """Count pods that come now where they leave the least room for `head`; False if not all have a node now."""
        later = [pool.copy() for pool in self._later.pools]
        whole = True
        for part in shape:
            whole = self._spread(part, head, later) and whole
        self._later = self._later.with_pools(tuple(later))
        return whole

    def _spread(self, part: GangPart, head: Shape, later: list[PoolRoom]) -> bool:
        rest = part.replicas if part.need else 0
        harms = self._harms.setdefault((part.need, head), {})
        for _ in range(BOUNDS.span_steps):
            if not rest:
                return True
            worst: tuple[tuple[int, ...], int, Pair] | None = None
            for number, counts in enumerate(self._pairs):
                if not later[number].takes[part.node_claim]:
                    continue
                for pair in counts:
                    known = (number, pair)
                    if known not in harms:
                        takes = later[number].takes
                        harms[known] = _harm(pair[1], part.need, head, takes) if slots(pair[0], part.need) else None
                    harm = harms[known]
                    if harm is not None and (worst is None or (harm, number, pair) > worst):
                        worst = (harm, number, pair)
            if worst is None:
                return False
            _, number, pair = worst
            nodes = min(rest, self._pairs[number][pair])
            after = (_less(pair[0], part.need), _less(pair[1], part.need))
            later[number].move(pair[1], after[1], nodes)
            _add(self._pairs[number], pair, -nodes)
            _add(self._pairs[number], after, nodes)
            rest -= nodes
        self._later.effort.note("span_steps")
        return False


def _harm(later: Vector, need: Need, head: Shape, takes: Sequence[bool]) -> tuple[int, ...]:
    """How many places of the head's pods one pod with this need costs on a node; among equals, how close it brings
    the node to losing the next."""
    after = _less(later, need)
    mine = [part for part in head if takes[part.node_claim]]
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
    """The same nodes with `after` free later. Nodes that changed are taken from the nodes with the least free now."""
    supply = dict(after.counts)
    matches: dict[Pair, int] = {}
    changed: list[tuple[Vector, int]] = []
    for (now, later), nodes in sorted(pairs.items(), reverse=True):
        same = min(nodes, supply.get(later, 0))
        if same:
            supply[later] -= same
            _add(matches, (now, later), same)
        if nodes > same:
            changed.append((now, nodes - same))
    rest = sorted((later, nodes) for later, nodes in supply.items() if nodes)
    for now, nodes in changed:
        while nodes and rest:
            later, count = rest.pop()
            taken = min(nodes, count)
            _add(matches, (now, later), taken)
            nodes -= taken
            if count > taken:
                rest.append((later, count - taken))
    return matches


class Span:
    """A reservation in the profile. It changes by `see` and `close` alone, once it is made: in the profile that has it,
    as units start there. A profile copies the spans that it is given, and changes them for the reason that Profile
    gives."""

    def __init__(
        self, reservation: Reservation, nodes: SpanNodes, usage: Usage | None, shapes: Sequence[Shape], now: float
    ) -> None:
        """`usage`: at the start, the reservation itself included; None where no tree limits it."""
        self.reservation = reservation
        self.usage = usage
        self._nodes: SpanNodes | None = nodes
        self._shapes = shapes
        self._now = now
        self._spared: dict[int, bool] = {}

    @property
    def holder(self) -> Candidate:
        return self.reservation.holder

    @property
    def member(self) -> str:
        return self.reservation.member

    def copy(self) -> Span:
        made = Span.__new__(Span)
        made.__dict__.update(self.__dict__)
        made._nodes = self._nodes.copy() if self._nodes is not None else None
        made.usage = self.usage.copy() if self.usage is not None else None
        made._spared = {}
        return made

    def close(self) -> None:
        """Let nothing more in: the room of the member at the start is not known any more."""
        self._nodes = None
        self._spared.clear()

    def outlasted_by(self, unit: Unit) -> bool:
        """Whether a unit that starts now may still be there at the start."""
        return self.end_of(unit) > self.reservation.start

    def end_of(self, unit: Unit) -> float:
        """When a unit that starts now ends, as an epoch second; infinite where nobody knows."""
        return float("inf") if unit.walltime_s is None else max(self._now, self._now + unit.walltime_s)

    def spares_room(self, shape: int, gangs: int = 1) -> bool:
        """Whether the reserved gang still fits its member beside so many gangs of this shape that outlast its start."""
        spared = self._spared.get(shape)
        if spared is None or gangs != 1:
            nodes = self._nodes.copy() if self._nodes is not None else None
            mine = self._shapes[self.holder.shape]
            others = tuple(replace(part, replicas=part.replicas * gangs) for part in self._shapes[shape])
            spared = nodes is not None and nodes.crowd(others, mine) and nodes.takes(mine)
            if gangs == 1:
                self._spared[shape] = spared
        return spared

    def spares_quota(self, candidate: Candidate) -> bool:
        """Whether quota has room for the reserved gang beside a candidate that outlasts its start."""
        account = candidate.account
        return account is None or self.usage is None or self.usage.refusal(account, candidate.request) is None

    def quota_room(self, node: str, resource: str) -> int | None:
        """The quota that is left beside the reserved gang at a node; None where nothing limits it."""
        return self.usage.room(node, resource) if self.usage is not None else None

    def see(self, candidate: Candidate, member: str) -> None:
        """Count a unit that starts now."""
        if candidate.unit.id == self.holder.unit.id or not self.outlasted_by(candidate.unit):
            return
        if self.reservation.lends_to(candidate.unit, candidate.tier):
            return
        if member == self.member and self._nodes is not None:
            self._nodes.crowd(self._shapes[candidate.shape], self._shapes[self.holder.shape])
            self._spared = {shape: False for shape, spared in self._spared.items() if not spared}
        if candidate.account is not None and self.usage is not None:
            self.usage.charge(candidate.account, candidate.request)
