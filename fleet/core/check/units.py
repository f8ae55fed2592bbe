"""Answers about units for several rules: whether a unit may start, its place in its queue, its pods, its tier.

fleet/core/quota defines tiers, for planner and checker alike. The demand behind tiers is found here, apart from the
planner: the waiting units that could start and fit a member that is empty.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.core.check.packer import Gang, Packer
from fleet.core.check.rules import read_rules
from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.matching import member_bars
from fleet.core.model.member import Member, Pool
from fleet.core.model.nesting import flaws
from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.entitlement import entitlement
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot


def may_start(snapshot: Snapshot, unit: Unit, now: float) -> bool:
    """Whether a unit waits, and nothing about itself keeps it from starting."""
    return _is_sound(snapshot, unit) and (unit.backoff_until is None or unit.backoff_until <= now)


def _is_sound(snapshot: Snapshot, unit: Unit) -> bool:
    """Whether a unit waits, and nothing about itself but a back-off keeps it from starting."""
    if unit.phase is not Phase.WAITING or unit.held or unit.pods <= 0:
        return False
    if unit.leaf is not None and (snapshot.tree is None or not snapshot.tree.is_leaf(unit.leaf)):
        return False
    if any(flaws(unit.rules, unit.components)):
        return False
    return all(
        0 <= part.replicas <= BOUNDS.replicas and all(0 <= n <= BOUNDS.amount for _, n in part.requests.items_)
        for part in unit.components
    )


def may_go(snapshot: Snapshot, unit: Unit, name: str) -> bool:
    """Whether a member is ready, and neither it nor the unit's policy forbids the unit to go there."""
    member = snapshot.members.get(name)
    return member is not None and member.ready and not member_bars(unit, member)


def in_the_way(
    snapshot: Snapshot, leaves: Container[str | None], passed: Container[str], now: float
) -> dict[str | None, Unit]:
    """By leaf, of `leaves`: the first unit of a strict queue that stops it, may start and is not among `passed`."""
    firsts: dict[str | None, Unit] = {}
    for alike in waiting_alike(snapshot):
        leaf, first = alike[0].leaf, alike[0]
        if leaf in leaves and _stops_leaf(snapshot, first) and may_start(snapshot, first, now):
            ahead = next((unit for unit in alike if unit.id not in passed), None)
            if ahead is not None:
                firsts[leaf] = min(ahead, firsts.get(leaf, ahead), key=queue_order)
    return firsts


def waits_behind(unit: Unit, ahead: Mapping[str | None, Unit]) -> bool:
    """Whether the unit of `ahead` in its leaf comes before a unit in its queue."""
    return unit.leaf in ahead and queue_order(unit) > queue_order(ahead[unit.leaf])


def _stops_leaf(snapshot: Snapshot, unit: Unit) -> bool:
    return snapshot.tree is not None and snapshot.tree.stopped_by(unit)


def waiting_alike(snapshot: Snapshot) -> Iterable[Sequence[Unit]]:
    """The waiting units of a snapshot. The units of one sequence differ in nothing but their turn, and stand in it."""
    yield from (lot.units for lot in snapshot.backlog.lots.values())
    yield from ((unit,) for unit in snapshot.backlog.odd.values())


def resources_of(snapshot: Snapshot) -> set[str]:
    """All resources that any unit asks for."""
    kinds = [alike[0] for alike in waiting_alike(snapshot)]
    kinds += [held.unit for held in snapshot.backlog.holders.values()]
    return {name for unit in kinds for part in unit.components for name, _ in part.requests.items_}


def gang_of(unit: Unit, *, hidden: bool = False) -> Gang:
    """A unit's pods; `hidden`: only the pods that the inventory does not show yet."""
    seen = dict(unit.visible) if hidden else {}
    counts = [max(0, part.replicas - max(0, seen.get(part.name, 0))) for part in unit.components]
    parts = [(count, part.requests, part.claim) for count, part in zip(counts, unit.components, strict=True)]
    pods = [(part.name, count) for count, part in zip(counts, unit.components, strict=True)]
    return Gang(unit.id, tuple(parts), read_rules(unit.rules, pods))


def gangs_in(snapshot: Snapshot, where: Mapping[str, str]) -> dict[str, list[Gang]]:
    """By member, the gangs of the units in `where`, which has the member of each."""
    found: dict[str, list[Gang]] = {}
    for key, member in where.items():
        found.setdefault(member, []).append(gang_of(snapshot.units[key]))
    return found


def coming(snapshot: Snapshot, members: Container[str | None], leaving: Container[str] = ()) -> dict[str, list[Gang]]:
    """By member, of `members`: pods on their way there, without those of the units that are `leaving`."""
    found: dict[str, list[Gang]] = {}
    for unit in snapshot.backlog.unseen.values():
        if unit.member is not None and unit.member in members and unit.id not in leaving:
            found.setdefault(unit.member, []).append(gang_of(unit, hidden=True))
    return found


def tiers_of(snapshot: Snapshot, now: float, leaves: Container[str | None] | None = None) -> Mapping[str, Tier]:
    """The tier of each unit in quota that holds room, by id, and of each that may start in `leaves` (None: in all)."""
    if snapshot.tree is None:
        return {}
    waiting, later = _demand(snapshot, now)
    charged = [(held.unit.leaf, request_of(held.unit), held.count) for held in snapshot.backlog.holders.values()]
    holding = list(snapshot.backlog.holding.values())
    return entitlement(snapshot.tree, snapshot.members, holding, waiting, later, charged, now=now).tiers(leaves)


def _demand(snapshot: Snapshot, now: float) -> tuple[list[UnitGroup], list[UnitGroup]]:
    """The units that may start and fit an empty member where they may go, and the units that only their back-off
    keeps from starting."""
    names = resources_of(snapshot)
    empty = [(member, _emptied(member)) for member in snapshot.members.values()]
    packers = [(member, Packer(bare, names) if bare is not None else None) for member, bare in empty]
    waiting: list[UnitGroup] = []
    later: list[UnitGroup] = []
    for units in waiting_alike(snapshot):
        unit = units[0]
        if not _is_sound(snapshot, unit):
            continue
        alike = UnitGroup(units, request_of(unit), _stops_leaf(snapshot, unit))
        if not may_start(snapshot, unit, now):
            later.append(alike)
        elif _fits_somewhere(unit, packers):
            waiting.append(alike)
    return waiting, later


def _fits_somewhere(unit: Unit, packers: Iterable[tuple[Member, Packer | None]]) -> bool:
    """Whether a unit fits a member where it may go. `packers`: of each member as if nothing ran there; None takes all.
    Members that all have no nodes take all, too."""
    able = [(member, packer) for member, packer in packers if not member_bars(unit, member)]
    gang = gang_of(unit)
    if any(packer is None or packer.takes(gang) for _, packer in able):
        return True
    nodes = (count for member, _ in able for pool in member.pools for _, count in pool.free)
    return bool(able) and not any(count > 0 for count in nodes)


def _emptied(member: Member) -> Member | None:
    """The member with nothing running; None when its inventory does not say what its nodes have."""
    pools: list[Pool] = []
    for pool in member.pools:
        nodes = sum(max(0, count) for _, count in pool.free)
        if nodes and not pool.allocatable.items_:
            return None
        pools.append(replace(pool, free=((Amounts.of(pool.most), nodes),) if nodes else ()))
    return replace(member, pools=tuple(pools))
