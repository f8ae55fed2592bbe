"""The fleet without the surplus of its elastic units: each of them at the least that it can run with.

What an elastic unit has beyond its least belongs to any unit that waits. So a decision is made about the fleet without
it, and the sizes come last, from what is left. A fact about nodes and units; planner and checker both read it here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.member import Member
from fleet.core.model.unit import Component, ElasticSizes, Phase, Seat, Unit
from fleet.core.snapshot.snapshot import Snapshot, SnapshotChanges


def resized(components: Iterable[Component], sizes: Mapping[str, int]) -> tuple[Component, ...]:
    """The components with so many replicas of those that are named."""
    return tuple(replace(part, replicas=sizes.get(part.name, part.replicas)) for part in components)


def smaller(unit: Unit, steps: int) -> Unit:
    """The unit once it has given up its first so many steps, with their pods gone."""
    sizes = unit.sizes
    if sizes is None or not steps:
        return unit
    fewer, unseen = Counter[str](), Counter[str]()
    freed: dict[str, Amounts] = {}
    for step in sizes.surplus[:steps]:
        fewer[step.component] += step.replicas
        unseen[step.component] += step.visible
        for seat in step.seats:
            freed[seat.node] = freed.get(seat.node, NOTHING).plus(seat.holds)
    seats = (_without(seat, freed.get(seat.node, NOTHING)) for seat in unit.seats)
    return replace(
        unit,
        components=tuple(replace(part, replicas=part.replicas - fewer[part.name]) for part in unit.components),
        visible=tuple((name, count - unseen[name]) for name, count in unit.visible),
        seats=tuple(seats),
        sizes=replace(sizes, surplus=sizes.surplus[steps:]),
    )


def elastic(snapshot: Snapshot, now: float) -> list[Unit]:
    """The units with a surplus that they can give up: they may be preempted, run in a member that answers, and are
    settled. Pods that are still there long after they were given up are not counted on: their operator may not take
    them away."""
    units: list[Unit] = []
    for unit in snapshot.backlog.sized.values():
        member = snapshot.members.get(unit.member or "")
        runs = unit.phase is Phase.PLACED and unit.preemptible and member is not None and member.ready
        if runs and unit.sizes is not None and _gives(unit.sizes, now, snapshot.config.claim_s):
            units.append(unit)
    return sorted(units, key=lambda unit: unit.id)


def _gives(sizes: ElasticSizes, now: float, patience_s: float) -> bool:
    stuck = sizes.leaving and sizes.shrunk_at is not None and now - sizes.shrunk_at >= patience_s
    return bool(sizes.surplus) and sizes.settled and not stuck


def at_least(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot with its elastic units at their least; the very same where nothing is to be given up, or where plans
    may take nothing back."""
    units = elastic(snapshot, now) if snapshot.config.reclaim else []
    return without(snapshot, {unit.id: len(unit.sizes.surplus) for unit in units if unit.sizes is not None})


def without(snapshot: Snapshot, steps: Mapping[str, int]) -> Snapshot:
    """The snapshot once these units have given up so many steps."""
    units = {key: smaller(snapshot.units[key], count) for key, count in steps.items() if count}
    if not units:
        return snapshot
    freed: dict[str, dict[str, Amounts]] = {}  # by member and node
    for key, unit in units.items():
        for before, after in zip(snapshot.units[key].seats, unit.seats, strict=True):
            if before.holds != after.holds:
                nodes = freed.setdefault(unit.member or "", {})
                nodes[before.node] = nodes.get(before.node, NOTHING).plus(before.holds.minus(after.holds))
    members = [_freed(snapshot.members[name], _places(snapshot, name, nodes)) for name, nodes in sorted(freed.items())]
    for key, unit in snapshot.backlog.holding.items():
        nodes = freed.get(unit.member or "", {})
        if nodes and not nodes.keys().isdisjoint(seat.node for seat in unit.seats):
            seats = zip(unit.seats, units.get(key, unit).seats, strict=True)
            moved = (replace(after, free=seat.free.plus(nodes.get(seat.node, NOTHING))) for seat, after in seats)
            units[key] = replace(units.get(key, unit), seats=tuple(moved))
    return snapshot.apply(SnapshotChanges(put_units=tuple(units.values()), put_members=tuple(members)))


_Place = tuple[int, Amounts, Amounts]  # pool, what is free on a node there, what becomes free


def _places(snapshot: Snapshot, member: str, nodes: Mapping[str, Amounts]) -> list[_Place]:
    """The nodes of a member on which something becomes free."""
    found: dict[str, _Place] = {}
    for unit in snapshot.backlog.sized.values():
        if unit.member == member:
            found |= {seat.node: (seat.pool, seat.free, nodes[seat.node]) for seat in unit.seats if seat.node in nodes}
    return [found[name] for name in sorted(found)]


def _freed(member: Member, places: Iterable[_Place]) -> Member:
    """The member with more free on some of its nodes. Where the inventory has moved on, what becomes free is a node by
    itself."""
    pools = [Counter(pool.counts) for pool in member.pools]
    for pool, free, more in places:
        if not 0 <= pool < len(pools):
            continue
        if pools[pool][free] > 0:
            pools[pool][free] -= 1
            more = more.plus(free)
        pools[pool][more] += 1
    counted = (tuple((vector, nodes) for vector, nodes in counts.items() if nodes) for counts in pools)
    return replace(member, pools=tuple(replace(p, free=free) for p, free in zip(member.pools, counted, strict=True)))


def _without(seat: Seat, gone: Amounts) -> Seat:
    return replace(seat, holds=seat.holds.minus(gone)) if gone.items_ else seat
