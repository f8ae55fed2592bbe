"""The checker's rule about victims: only work that may leave does, and only for a unit that ranks above it."""

from __future__ import annotations

from collections.abc import Container, Mapping

from fleet.check.tiers import tiers_of
from fleet.check.violation import Rule, Violation
from fleet.model.plan import Eviction, Plan
from fleet.model.unit import Phase, Unit
from fleet.quota.tiers import Tier
from fleet.snapshot import Snapshot


def evictions(
    snapshot: Snapshot, plan: Plan, claiming: Container[str], now: float
) -> tuple[list[Unit], list[Violation]]:
    """The victims of a plan, and every rule about them that it breaks. `claiming`: units that claim room by it."""
    victims: dict[str, Unit] = {}
    found: list[Violation] = []
    preemptors = {eviction.preemptor for eviction in plan.evictions} & snapshot.units.keys()
    tiers = tiers_of(snapshot, now, {snapshot.units[key].leaf for key in preemptors}) if plan.evictions else {}
    for eviction in plan.evictions:
        broken = may_not_leave(snapshot, eviction, victims, tiers, now)
        if broken is None and eviction.preemptor not in claiming:
            broken = Violation(Rule.CLAIM_UNSOUND, eviction.unit, f"{eviction.preemptor} evicts but claims no room")
        if broken is None:
            victims[eviction.unit] = snapshot.units[eviction.unit]
        else:
            found.append(broken)
    return list(victims.values()), found


def may_not_leave(
    snapshot: Snapshot,
    eviction: Eviction,
    gone: Container[str],
    tiers: Mapping[str, Tier],
    now: float,
) -> Violation | None:
    """Why a unit must not be evicted; None where it may. `gone`: units that leave by evictions before this one."""
    unit = snapshot.units.get(eviction.unit)
    if unit is None or unit.phase is not Phase.PLACED or unit.member != eviction.member or eviction.unit in gone:
        return Violation(Rule.EVICTS_NOBODY, eviction.unit, f"{eviction.unit} does not run in {eviction.member}")
    young = unit.placed_at is not None and now - unit.placed_at < snapshot.config.protection_s
    where = snapshot.members.get(eviction.member)
    silent = where is None or not where.ready
    if not snapshot.config.reclaim or young or silent or not unit.preemptible or unit.leaf is None:
        return Violation(Rule.EVICTS_PROTECTED, unit.id, f"{unit.name} may not be evicted")
    preemptor = snapshot.units.get(eviction.preemptor)
    if preemptor is None or preemptor.leaf is None or snapshot.tree is None:
        return Violation(Rule.EVICTS_HIGHER, unit.id, f"{unit.name} does not give way to {eviction.preemptor}")
    node = snapshot.tree.nodes.get(preemptor.leaf)
    policy = node.attributes.get("preempt-policy", "") if node is not None else "Never"
    spared = {
        "Never": True, "AnyPriority": False, "PreemptLowerPriority": unit.priority >= preemptor.priority,
    }.get(policy, unit.priority > preemptor.priority)  # fmt: skip
    if preemptor.leaf == unit.leaf:
        spared = spared or policy != "PreemptLowerPriority"
    else:
        spared = spared or tiers.get(unit.id, Tier.BORROWED) <= _tier(snapshot, preemptor, tiers, now)
    return Violation(Rule.EVICTS_HIGHER, unit.id, f"{unit.name} ranks above {preemptor.name}") if spared else None


def _tier(snapshot: Snapshot, preemptor: Unit, tiers: Mapping[str, Tier], now: float) -> Tier:
    """The tier as which a unit evicts. A unit that takes its leaf past its share has that right only as a head, which
    has waited past the bound, and then as one within the share."""
    tier, after = tiers.get(preemptor.id, Tier.BORROWED), snapshot.config.head_after_s
    if tier is not Tier.CROSSING:
        return tier
    head = preemptor.head is not None or 0 < after <= now - preemptor.enqueued_at
    return Tier.SHARE if head else Tier.BORROWED
