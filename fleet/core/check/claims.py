"""The checker's rules about claims and victims.

A claim is a span of room and quota that no other unit gets. A claim begins when the victims are gone: from then on it
has room and quota, beside all that starts and all earlier claims. Victims make room only once they have left, so claims
are packed onto the nodes as they will be. Only work that may leave is evicted, for a unit that ranks above it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.check.quota import ChargeSums
from fleet.core.check.units import coming, gangs_in, in_the_way, may_go, may_start, resources_of, tiers_of, waits_behind
from fleet.core.check.violation import Rule, Violation
from fleet.core.model.effort import Effort
from fleet.core.model.leaving import leaves, vacated
from fleet.core.model.member import Member
from fleet.core.model.plan import Eviction, Plan
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a snapshot and a plan, each by unit with its member. `live`: earlier claims of units that wait on;
    `new`: sound claims of the plan; `used`: claims whose units start in them. `unclaimed`: the other units that
    start."""

    live: Mapping[str, str]
    new: Mapping[str, str]
    used: Mapping[str, str]
    unclaimed: Mapping[str, str]

    @property
    def members(self) -> list[str]:
        return sorted({*self.live.values(), *self.new.values()})


@dataclass(frozen=True, slots=True)
class ClaimedMember:
    """A member where room is claimed. `leaving`: units that leave it; `first`: gangs on their way, and gangs that
    start in claimed room of their own; `beside` start beside them; `claimed`: gangs of live claims, then of new
    claims."""

    member: Member
    leaving: Sequence[Unit]
    first: Sequence[Gang]
    beside: Sequence[Gang]
    claimed: Sequence[Gang]


def claims_of(snapshot: Snapshot, plan: Plan, starts: Mapping[str, str], now: float) -> tuple[Claims, list[Violation]]:
    """The claims that hold beside what `starts`, and every claim of the plan that is unsound."""
    live = _live(snapshot, now)
    made = {claim.unit: claim.member for claim in plan.claims}
    unsound = {v.unit: v for v in _unsound(snapshot, plan, starts, live, now)}
    return Claims(
        live={key: member for key, member in live.items() if key not in starts and key not in made},
        new={key: member for key, member in made.items() if key not in unsound},
        used={key: member for key, member in starts.items() if live.get(key) == member},
        unclaimed={key: member for key, member in starts.items() if live.get(key) != member},
    ), list(unsound.values())


def going(snapshot: Snapshot, victims: Iterable[Unit], now: float) -> list[Unit]:
    """All units that leave: the victims, and the units that are leaving already."""
    patience = snapshot.config.claim_s
    return [*victims, *(unit for unit in snapshot.backlog.holding.values() if leaves(unit, now, patience))]


def claimed_members(snapshot: Snapshot, claims: Claims, units: Sequence[Unit]) -> Iterable[ClaimedMember]:
    """Each member where room is claimed. `units`: all units that leave any member."""
    live = dict(sorted(claims.live.items()))
    gangs = [gangs_in(snapshot, where) for where in (claims.used, claims.unclaimed, live, claims.new)]
    arriving = coming(snapshot, claims.members, {unit.id for unit in units})
    for name in claims.members:
        leaving = [unit for unit in units if unit.member == name]
        used, others, old, new = (by_member.get(name, []) for by_member in gangs)
        yield ClaimedMember(snapshot.members[name], leaving, [*arriving.get(name, ()), *used], others, [*old, *new])


def room_broken(snapshot: Snapshot, claims: Claims, leaving: Sequence[Unit], effort: Effort) -> Iterable[Violation]:
    """New claims that have no room once `leaving` have left, and starts in claimed room. Of two
    earlier claims that no longer fit beside each other, one counts for nothing."""
    names = resources_of(snapshot)
    for at in claimed_members(snapshot, claims, leaving):
        there = vacated(at.member, at.leaving)
        lost = set(first_unpackable(there, at.first, at.claimed, names, effort))
        for key in (gang.unit for gang in at.claimed if gang.unit in lost & claims.new.keys()):
            yield Violation(Rule.CLAIM_TOO_SMALL, key, f"{key} claims room that {at.member.name} will not have")
        spans = [gang for gang in at.claimed if gang.unit not in lost]
        for key in first_unpackable(there, [*at.first, *spans], at.beside, names, effort):
            yield Violation(Rule.CLAIM_TAKEN, key, f"{key} takes room in {at.member.name} that is claimed")


def quota_broken(snapshot: Snapshot, claims: Claims, leaving: Iterable[Unit], sums: ChargeSums) -> Iterable[Violation]:
    """The same for quota. `sums` counts the units that hold room or start; afterwards, the claims instead of
    `leaving`."""
    units = snapshot.units
    for unit in leaving:
        sums.charge(unit, -1)
    for key in claims.unclaimed:
        sums.charge(units[key], -1)
    for key in sorted(claims.live):
        sums.start(units[key])
    others = ((Rule.CLAIM_TAKEN, key, "takes quota that is claimed") for key in claims.unclaimed)
    new = ((Rule.CLAIM_TOO_SMALL, key, "claims room without quota for it") for key in claims.new)
    for rule, key, text in (*others, *new):
        broken = sums.broken(units[key])
        if broken is not None:
            yield Violation(rule, key, f"{key} {text}: {broken.text}")
        sums.charge(units[key])


def _live(snapshot: Snapshot, now: float) -> dict[str, str]:
    """Claims of the snapshot that hold, by unit."""
    return {
        key: unit.claim.member
        for key, unit in snapshot.backlog.odd.items()  # every unit with a claim is odd
        if unit.claim is not None and unit.claim.until > now
        if may_start(snapshot, unit, now) and may_go(snapshot, unit, unit.claim.member)
    }


def _unsound(
    snapshot: Snapshot, plan: Plan, starts: Mapping[str, str], live: Mapping[str, str], now: float
) -> Iterable[Violation]:
    claimants: set[str] = set()
    passed = {*starts, *live, *(claim.unit for claim in plan.claims)}
    queues = {unit.leaf for claim in plan.claims if (unit := snapshot.units.get(claim.unit)) is not None}
    ahead = in_the_way(snapshot, queues, passed, now) if queues else {}
    for claim in plan.claims:
        unit = snapshot.units.get(claim.unit)
        problem = ""
        if unit is None or not may_start(snapshot, unit, now):
            problem = "claims room, but could not start"
        elif claim.unit in starts or claim.unit in claimants:
            problem = "claims room, but starts or has claimed already"
        elif not may_go(snapshot, unit, claim.member):
            problem = f"claims room in {claim.member}, where it may not go"
        elif waits_behind(unit, ahead):
            problem = "claims room, but a unit ahead stops its queue"
        elif claim.until <= now or claim.room != unit.total:
            problem = "claims room that is not its own, or for no time"
        claimants.add(claim.unit)
        if problem:
            yield Violation(Rule.CLAIM_UNSOUND, claim.unit, f"{claim.unit} {problem}")


def evictions(
    snapshot: Snapshot, plan: Plan, claiming: Container[str], now: float
) -> tuple[list[Unit], list[Violation]]:
    """The victims of a plan, and every rule on victims that it breaks. `claiming`: units that claim room by it."""
    victims: dict[str, Unit] = {}
    violations: list[Violation] = []
    preemptors = {eviction.preemptor for eviction in plan.evictions} & snapshot.units.keys()
    tiers = tiers_of(snapshot, now, {snapshot.units[key].leaf for key in preemptors}) if plan.evictions else {}
    for eviction in plan.evictions:
        broken = may_not_leave(snapshot, eviction, victims, tiers, now)
        if broken is None and eviction.preemptor not in claiming:
            broken = Violation(Rule.CLAIM_UNSOUND, eviction.unit, f"{eviction.preemptor} evicts but claims no room")
        if broken is None:
            victims[eviction.unit] = snapshot.units[eviction.unit]
        else:
            violations.append(broken)
    return list(victims.values()), violations


def may_not_leave(
    snapshot: Snapshot,
    eviction: Eviction,
    victims: Container[str],
    tiers: Mapping[str, Tier],
    now: float,
) -> Violation | None:
    """Why a unit must not be evicted; None where it may. `victims`: units that leave by evictions before this one."""
    unit = snapshot.units.get(eviction.unit)
    if unit is None or unit.phase is not Phase.PLACED or unit.member != eviction.member or eviction.unit in victims:
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
        "Never": True,
        "AnyPriority": False,
        "PreemptLowerPriority": unit.priority >= preemptor.priority,
    }.get(policy, unit.priority > preemptor.priority)
    if preemptor.leaf == unit.leaf:
        spared = spared or policy != "PreemptLowerPriority"
    else:
        spared = spared or tiers.get(unit.id, Tier.BORROWED) <= _tier(snapshot, preemptor, tiers, now)
    return Violation(Rule.EVICTS_HIGHER, unit.id, f"{unit.name} ranks above {preemptor.name}") if spared else None


def _tier(snapshot: Snapshot, preemptor: Unit, tiers: Mapping[str, Tier], now: float) -> Tier:
    """The tier as which a unit evicts. A unit that takes its leaf past its share evicts only once it has waited past
    the bound of a head. Its tier is then that of a unit within the share."""
    tier, after = tiers.get(preemptor.id, Tier.BORROWED), snapshot.config.head_after_s
    if tier is not Tier.CROSSING:
        return tier
    head = preemptor.head is not None or 0 < after <= now - preemptor.enqueued_at
    return Tier.SHARE if head else Tier.BORROWED
