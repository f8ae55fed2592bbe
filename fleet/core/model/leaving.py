"""A member as it will be once some units have left it. A fact about nodes; planner and checker both read it here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.matching import pool_takes
from fleet.core.model.member import Member
from fleet.core.model.unit import Phase, Seat, Unit

Places = tuple[int, Amounts, int]  # number of a pool of the member, what is free on each of the places, how many


def leaves(unit: Unit, now: float, patience_s: float) -> bool:
    """Whether the room of an evicting unit may be counted on. After `patience_s` it may not: its node may be dead."""
    return unit.phase is Phase.EVICTING and (unit.leaving_at is None or now - unit.leaving_at < patience_s)


def left_behind(unit: Unit, member: Member) -> Sequence[Places]:
    """The places that a unit's visible pods leave in its member where their seats are not known: each pod one of its
    own size, in the first pool that takes it. The true room is that or larger. Nothing for a unit with known seats."""
    seen = dict(unit.visible)
    places: list[Places] = []
    for part in unit.components if not unit.seats else ():
        pods = min(part.replicas, max(0, seen.get(part.name, 0)))
        home = next((number for number, pool in enumerate(member.pools) if pool_takes(pool, part.claim)), None)
        if pods and home is not None:
            places.append((home, part.requests, pods))
    return places


def vacated(member: Member, leaving: Iterable[Unit]) -> Member:
    """`member` with the room of the visible pods of `leaving` free: on their nodes, or as `left_behind` says."""
    pools = [dict[Amounts, int]() for _ in member.pools]
    for number, pool in enumerate(member.pools):
        for vector, count in pool.free:
            _put(pools[number], vector, count)
    nodes: dict[str, list[Seat]] = {}
    places: list[Places] = []
    for unit in leaving:
        for seat in unit.seats:
            nodes.setdefault(seat.node, []).append(seat)
        places += left_behind(unit, member)
    if not nodes and not places:
        return member
    for name in sorted(nodes):
        first = nodes[name][0]
        if not 0 <= first.pool < len(pools):
            continue
        amounts = NOTHING
        for seat in nodes[name]:
            amounts = amounts.plus(seat.holds)
        if pools[first.pool].get(first.free, 0) > 0:
            _put(pools[first.pool], first.free, -1)
            amounts = amounts.plus(first.free)
        # Where the inventory has moved on, the leaving pods are there all the same: a node by itself.
        _put(pools[first.pool], amounts, 1)
    for home, vector, count in places:
        _put(pools[home], vector, count)
    changed = (replace(pool, free=tuple(free.items())) for pool, free in zip(member.pools, pools, strict=True))
    return replace(member, pools=tuple(changed))


def _put(free: dict[Amounts, int], vector: Amounts, nodes: int) -> None:
    left = free.get(vector, 0) + nodes
    if left > 0:
        free[vector] = left
    else:
        free.pop(vector, None)
