"""A member as it will be once some units have left it. A fact about nodes; planner and checker both read it here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.matching import pool_takes
from fleet.model.member import Member
from fleet.model.unit import Phase, Seat, Unit


def leaves(unit: Unit, now: float, patience_s: float) -> bool:
    """Whether the room of an evicting unit may be counted on: not once it has been leaving for longer than that, its
    node is dead for all one knows."""
    return unit.phase is Phase.EVICTING and (unit.leaving_at is None or now - unit.leaving_at < patience_s)


def vacated(member: Member, leaving: Iterable[Unit]) -> Member:
    """`member` with the room of the visible pods of `leaving` free. Where a unit's seats are not known, each of its
    pods leaves a place of its own size and no more: the true room is that or larger."""
    pools: list[dict[Amounts, int]] = []
    for pool in member.pools:
        pools.append({})
        for vector, count in pool.free:
            _put(pools[-1], vector, count)
    nodes: dict[str, list[Seat]] = {}
    loose: list[Unit] = []
    for unit in leaving:
        for seat in unit.seats:
            nodes.setdefault(seat.node, []).append(seat)
        if not unit.seats:
            loose.append(unit)
    for name in sorted(nodes):
        seats = nodes[name]
        held = NOTHING
        for seat in seats:
            held = held.plus(seat.holds)
        first = seats[0]
        if 0 <= first.pool < len(pools) and pools[first.pool].get(first.free, 0) > 0:
            _put(pools[first.pool], first.free, -1)
            _put(pools[first.pool], first.free.plus(held), 1)
        elif 0 <= first.pool < len(pools):  # the inventory moved on meanwhile: what leaves is there all the same
            _put(pools[first.pool], held, 1)
    for unit in loose:
        seen = dict(unit.visible)
        for component in unit.components:
            pods = min(component.replicas, max(0, seen.get(component.name, 0)))
            home = next((i for i, pool in enumerate(member.pools) if pool_takes(pool, component.claim)), None)
            if pods and home is not None:
                _put(pools[home], component.requests, pods)
    if not nodes and not loose:
        return member
    changed = (replace(pool, free=tuple(free.items())) for pool, free in zip(member.pools, pools, strict=True))
    return replace(member, pools=tuple(changed))


def _put(free: dict[Amounts, int], vector: Amounts, nodes: int) -> None:
    left = free.get(vector, 0) + nodes
    if left > 0:
        free[vector] = left
    else:
        free.pop(vector, None)
