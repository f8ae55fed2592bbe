"""The layout of gangs that are on their way to their members: the room that is left beside them.

A decision packs gangs as it places them; the next decision sees only that gangs come, and packs them again. Both
packings must be the same, or the next decision would count on room that is taken. So both decisions lay gangs out here,
in an order that depends on the set alone: largest first. With odd sizes, one order may fail where another does not. So
gangs without a place come first in another try, a few times over. A gang that still finds no place is named: a decision
takes placements back until all others have a place. For gangs that run there already (the inventory and the bindings
disagree for a moment) room is taken all the same.

A plan names members only; a member has the last word on the rack of a gang that must lie within one. The layout here is
the one that the next decision will see. So two gangs that start together are not sent to the same rack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.chosendomain import ChosenDomain
from fleet.core.model.nesting import all_in, bundle_of, whole_gang
from fleet.core.model.packing import packing
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.room import MemberRoom, committed, largest_first
from fleet.core.placement.packing.space import Need, Shape, Space, confined
from fleet.core.snapshot import Snapshot

Coming = tuple[str, str, Shape]  # unit, member, pods that are committed but not seen


@dataclass(slots=True)
class Layout:
    """`lost`: units that found no place, by member; `fits`: of the units with rules, where they lie."""

    rooms: dict[str, MemberRoom]
    lost: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fits: dict[str, Fit] = field(default_factory=dict)


def lay_out(free: Mapping[str, MemberRoom], coming: Iterable[Coming], space: Space) -> Layout:
    """`free` rooms less what comes; `free` stays as it is. The same set leaves the same room, however it came about."""
    layout = Layout({name: room.copy() for name, room in free.items()})
    by_member: dict[str, list[Coming]] = {}
    for item in largest_first((item for item in coming if item[1] in free and item[2]), space):
        by_member.setdefault(item[1], []).append(item)
    for name, items in by_member.items():
        best, lost, fits = _packed(free[name], items, space.devices)
        first = items
        for _ in range(BOUNDS.layouts - 1):
            if not lost:
                break
            last = set(lost)
            first = [*(item for item in first if item[0] in last), *(item for item in first if item[0] not in last)]
            other = _packed(free[name], first, space.devices)
            if len(other[1]) < len(lost):
                best, lost, fits = other
        whole = packed_anew(free[name], [item[2] for item in items], space) if lost else None
        if whole is not None:
            best, lost = whole, []
        layout.rooms[name] = best
        layout.fits.update(fits)
        if lost:
            space.effort.note("layouts")
            layout.lost[name] = tuple(lost)
    return layout


def packed_anew(free: MemberRoom, shapes: Iterable[Shape], space: Space) -> MemberRoom | None:
    """The room that is left of `free` beside gangs of all of these shapes, in any packing; None where none was found.
    Gangs that must lie within a rack, and nodes that could be added, are not looked at."""
    pods: dict[tuple[Need, int], int] = {}
    for shape in shapes:
        if confined(shape):
            return None
        for part in shape:
            pods[part.need, part.node_claim] = pods.get((part.need, part.node_claim), 0) + part.replicas
    kinds = sorted(pods)
    homes: list[tuple[int, tuple[int, ...]]] = []  # pool and free vector of each node
    for index, pool in enumerate(free.pools):
        if not pool.potential:
            if sum(pool.counts.values()) > BOUNDS.packing_nodes:  # before they are listed one by one
                space.effort.note("packing_nodes")
                return None
            homes += ((index, vector) for vector in pool.keys for _ in range(pool.counts[vector]))
    takes = [tuple(pool.takes[claim] for _, claim in kinds) for pool in free.pools]
    sizes = [(space.size(need), pods[need, claim]) for need, claim in kinds]
    proposal = packing(sizes, [(vector, takes[index]) for index, vector in homes])
    space.effort.note(*proposal.bounds)
    if proposal.counts is None:
        return None
    pools = [pool.copy() for pool in free.pools]
    for (index, vector), counts in zip(homes, proposal.counts, strict=True):
        after = list(vector)
        for (need, _), count in zip(kinds, counts, strict=True):
            for resource, amount in need:
                after[resource] -= amount * count
        if any(counts):
            pools[index].move(vector, tuple(after), 1)
    return free.with_pools(tuple(pools))


def _packed(free: MemberRoom, items: Sequence[Coming], devices: int) -> tuple[MemberRoom, list[str], dict[str, Fit]]:
    """The room after all of them in this order, who found no place, and the packings of those with rules."""
    room = free.copy()
    lost: list[str] = []
    fits: dict[str, Fit] = {}
    for shape, alike in groupby(items, key=itemgetter(2)):
        units = [item[0] for item in alike]
        if len(units) > 1 and len(shape) == 1 and not confined(shape):
            # equal pods, each onto the fullest node that takes it, lie the same all at once
            fit = room.fit((replace(shape[0], replicas=shape[0].replicas * len(units)),), devices)
            if fit is not None:
                room.take(fit)
                continue
        for unit in units:
            fit = room.hold(shape, devices)
            if fit is None:
                lost.append(unit)
            elif fit.domain or fit.bundles:
                fits[unit] = fit
    return room, lost, fits


def domains_chosen(snapshot: Snapshot, placed: Mapping[str, str]) -> dict[str, tuple[ChosenDomain, ...]]:
    """The domains of the pods of each unit of `placed` (unit to member) that has rules, where there is room."""
    bound = {key: member for key, member in placed.items() if snapshot.units[key].confined}
    chosen: dict[str, tuple[ChosenDomain, ...]] = {}
    for name in sorted(set(bound.values())):
        units = [
            unit
            for unit in snapshot.units.values()
            if (unit.member == name and unit.phase is not Phase.WAITING) or placed.get(unit.id) == name
        ]
        rules = {unit.rules for unit in units}
        space = Space([unit.components for unit in units], rules, [snapshot.members[name]])
        coming: list[Coming] = []
        for unit in units:
            new = unit.id in placed
            shape = space.shape_of(unit) if new else committed(unit, space)
            coming.append((unit.id, name, shape))
        layout = lay_out({name: MemberRoom.of(snapshot.members[name], space)}, coming, space)
        chosen.update((key, _chosen(snapshot.units[key], fit)) for key, fit in layout.fits.items() if key in bound)
    return chosen


def _chosen(unit: Unit, fit: Fit) -> tuple[ChosenDomain, ...]:
    rules, inner = whole_gang(bundle_of(unit.components, unit.rules))
    outer = [ChosenDomain(rule, domain) for rule, domain in zip(rules, fit.domain, strict=True)]
    bundles = list(all_in(inner)) if inner is not None else []
    rule_of = {number: one.rule for number, one in enumerate(bundles) if one.rule is not None}
    return (*outer, *[ChosenDomain(rule_of[number], domain, parts) for number, domain, parts in fit.bundles])
