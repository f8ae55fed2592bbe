"""The checker's rules about evicting and claiming, written apart from the search for victims.

Evicting is for a unit that claims the room; it takes only what ranks below it, is old enough and may be preempted; with
the victims gone there is room for all that is claimed, and without them there is not. Nothing that starts uses claimed
room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.check_quota import Sums
from fleet.check_units import coming_to, gang_of, may_start, resources_of, stops_leaf, tiers_of
from fleet.model.leaving import leaves, vacated
from fleet.model.matching import member_bars
from fleet.model.unit import Phase, Unit
from fleet.packer import first_unpackable, too_many
from fleet.plan import Eviction, Plan
from fleet.quota.tiers import Tier
from fleet.snapshot import Snapshot
from fleet.violation import Rule, Violation


def reclaims(snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    """Every rule about evictions and claims that the plan breaks. `placed`: units that start, with their member."""
    claims = {claim.unit: claim.member for claim in plan.claims}
    bad = {v.unit: v for v in _unsound_claims(snapshot, plan, placed, now)}
    yield from bad.values()
    known = _live_claims(snapshot, now)
    live = {key: member for key, member in known.items() if key not in placed and key not in claims}
    sound = {key: member for key, member in claims.items() if key not in bad}
    victims: dict[str, Eviction] = {}
    about = {key for eviction in plan.evictions for key in (eviction.unit, eviction.preemptor)}
    tiers = tiers_of(snapshot, now, about) if about else {}
    for eviction in plan.evictions:
        unit = snapshot.units.get(eviction.unit)
        broken = _may_not_leave(snapshot, eviction, unit, victims, tiers, now)
        if broken is None and eviction.preemptor not in claims and eviction.preemptor not in bad:
            broken = Violation(Rule.CLAIM_UNSOUND, eviction.unit, f"{eviction.preemptor} evicts but claims no room")
        if broken is not None:
            yield broken
        else:
            victims[eviction.unit] = eviction
    if not live and not sound:
        return
    sums = _sums(snapshot, victims, now)
    if sums is not None:
        for key in (*sorted(placed), *sorted(live)):
            sums.charge(snapshot.units[key])
    yield from _room(snapshot, placed, live, sound, known, victims, sums, now)
    if sums is not None:
        yield from _quota(snapshot, sound, sums)


def _live_claims(snapshot: Snapshot, now: float) -> dict[str, str]:
    """Claims of the snapshot that still hold, by unit."""
    return {
        key: unit.claim.member
        for key, unit in snapshot.backlog.odd.items()  # who has a claim is one by itself
        if unit.claim is not None
        and unit.claim.until > now
        and not stops_leaf(snapshot, unit)
        and may_start(snapshot, unit, now)
        and unit.claim.member in snapshot.members
        and snapshot.members[unit.claim.member].ready
        and not member_bars(unit, snapshot.members[unit.claim.member])
    }


def _unsound_claims(snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    seen: set[str] = set()
    for claim in plan.claims:
        unit, member = snapshot.units.get(claim.unit), snapshot.members.get(claim.member)
        problem = ""
        if unit is None or not may_start(snapshot, unit, now):
            problem = "claims room, but could not start"
        elif claim.unit in placed or claim.unit in seen:
            problem = "claims room, but starts or has claimed already"
        elif member is None or not member.ready or member_bars(unit, member):
            problem = f"claims room in {claim.member}, where it may not go"
        elif claim.until <= now or claim.room != unit.total:
            problem = "claims room that is not its own, or for no time"
        seen.add(claim.unit)
        if problem:
            yield Violation(Rule.CLAIM_UNSOUND, claim.unit, f"{claim.unit} {problem}")


def _may_not_leave(
    snapshot: Snapshot,
    eviction: Eviction,
    unit: Unit | None,
    victims: Mapping[str, Eviction],
    tiers: Mapping[str, Tier],
    now: float,
) -> Violation | None:
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
    theirs = tiers.get(unit.id, Tier.BORROWED)
    above = {
        "Never": True, "AnyPriority": False, "PreemptLowerPriority": unit.priority >= preemptor.priority,
    }.get(policy, unit.priority > preemptor.priority)  # fmt: skip
    if preemptor.leaf == unit.leaf:
        above = above or policy != "PreemptLowerPriority"
    elif theirs <= tiers.get(preemptor.id, Tier.BORROWED):
        above = True
    if above:
        return Violation(Rule.EVICTS_HIGHER, unit.id, f"{unit.name} ranks above {preemptor.name}")
    return None


def _room(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    live: Mapping[str, str],
    new: Mapping[str, str],
    claimed: Mapping[str, str],
    victims: Mapping[str, Eviction],
    sums: Sums | None,
    now: float,
) -> Iterable[Violation]:
    """What is claimed fits once all that leaves is gone, not before, and beside all that starts; of two claims that no
    longer fit beside each other (`claimed` has all that hold) one may start."""
    if not live and not new:
        return
    names = resources_of(snapshot)
    gone: dict[str, list[Unit]] = {}
    for unit in _gone(snapshot, victims, now):
        gone.setdefault(unit.member or "", []).append(unit)
    for member in sorted({*live.values(), *new.values()}):
        going = gone.get(member, [])
        after = vacated(snapshot.members[member], going)
        leaving = {unit.id for unit in going}
        coming = coming_to(snapshot, member, leaving)
        kept = [gang_of(snapshot.units[key]) for key, where in sorted(live.items()) if where == member]
        wanted = [gang_of(snapshot.units[key]) for key, where in sorted(new.items()) if where == member]
        first = [gang_of(snapshot.units[key]) for key, where in placed.items() if where == member == claimed.get(key)]
        lost = set(first_unpackable(after, [*coming, *first], [*kept, *wanted], names, thorough=True))
        for gang in wanted:
            if gang.unit in lost:
                yield Violation(Rule.CLAIM_TOO_SMALL, gang.unit, f"{gang.unit} claims room that {member} will not have")
        holds = [*coming, *first, *(gang for gang in (*kept, *wanted) if gang.unit not in lost)]
        mine = {gang.unit for gang in first}
        starting = [
            gang_of(snapshot.units[key]) for key, where in placed.items() if where == member and key not in mine
        ]  # fmt: skip
        for key in first_unpackable(after, holds, starting, names, thorough=True) if starting else ():
            yield Violation(Rule.CLAIM_TAKEN, key, f"{key} takes room in {member} that is claimed")
        today = replace(vacated(snapshot.members[member], [u for u in going if u.id not in victims]), potential=())
        for gang in wanted:
            cause = [v for v in victims.values() if v.preemptor == gang.unit]
            if cause and all(v.member == member for v in cause):
                others = [g for g in (*kept, *wanted) if g.unit != gang.unit]
                own = {v.unit for v in cause}
                still = coming_to(snapshot, member, leaving - own)
                everything = [*still, *others, *first, *starting]
                beside = [snapshot.units[key] for key in (*own, *new) if key != gang.unit]
                everything.append(gang)
                if _lacks_quota(snapshot.units[gang.unit], beside, sums) or too_many(today, everything, names):
                    continue
                if not first_unpackable(today, [], everything, names, tries=1):
                    text = f"{gang.unit} has room in {member} without evicting anybody"
                    yield Violation(Rule.EVICTS_NEEDLESSLY, cause[0].unit, text)


def _lacks_quota(unit: Unit, beside: Sequence[Unit], sums: Sums | None) -> bool:
    """Whether quota refuses the unit once these are charged, too."""
    if sums is None:
        return False
    for other in beside:
        sums.charge(other)
    broken = sums.broken(unit)
    for other in beside:
        sums.charge(other, -1)
    return broken is not None


def _gone(snapshot: Snapshot, victims: Mapping[str, Eviction], now: float) -> Iterable[Unit]:
    """Who holds room and leaves it."""
    for unit in snapshot.backlog.holding.values():
        if unit.id in victims or leaves(unit, now, snapshot.config.claim_s):
            yield unit


def _quota(snapshot: Snapshot, new: Iterable[str], sums: Sums) -> Iterable[Violation]:
    """What is claimed has quota, too, once all that leaves is gone; `sums` is charged with all of it."""
    for key in new:
        unit = snapshot.units[key]
        broken = sums.broken(unit)
        if broken is not None:
            yield Violation(Rule.CLAIM_TOO_SMALL, key, f"{key} claims room without quota for it: {broken.text}")
        sums.charge(unit)


def _sums(snapshot: Snapshot, victims: Mapping[str, Eviction], now: float) -> Sums | None:
    """What is used of quota once all who leave are gone; None without a tree."""
    if snapshot.tree is None:
        return None
    sums = Sums(snapshot, snapshot.tree, users=True)
    for unit in _gone(snapshot, victims, now):
        sums.charge(unit, -1)
    return sums
