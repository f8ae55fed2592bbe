"""The checker's rules about evicting and claiming, written apart from the search for victims.

Evicting is for a unit that claims the room; it takes only what ranks below it, is old enough and may be preempted; with
the victims gone there is room for all that is claimed, and were any one to stay there would not be. Nothing that starts
uses claimed room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.check.awaited import Awaited
from fleet.check.needless import Nodes, needless
from fleet.check.packer import Gang, first_unpackable
from fleet.check.quota import Sums
from fleet.check.units import coming_to, gang_of, in_the_way, may_start, resources_of, tiers_of
from fleet.check.violation import Rule, Violation
from fleet.model.leaving import leaves, vacated
from fleet.model.matching import member_bars
from fleet.model.member import Member
from fleet.model.order import queue_order
from fleet.model.plan import Eviction, Plan
from fleet.model.unit import Phase, Unit
from fleet.quota.tiers import Tier
from fleet.snapshot import Snapshot


def reclaims(snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    """Every rule about evictions and claims that the plan breaks. `placed`: units that start, with their member."""
    claims = {claim.unit: claim.member for claim in plan.claims}
    known = _live_claims(snapshot, now)
    bad = {v.unit: v for v in _unsound_claims(snapshot, plan, placed, known, now)}
    yield from bad.values()
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
    names = resources_of(snapshot)
    scenes = _scenes(snapshot, placed, live, sound, known, _gone(snapshot, victims, now))
    yield from _room(scenes, names)
    if sums is not None:
        yield from _quota(snapshot, sound, sums)
    going = [snapshot.units[key] for key in victims]
    awaited = Awaited(snapshot, plan, placed, live, sound, going, now)
    yield from awaited.broken()
    if victims:
        yield from _stays(snapshot, scenes, victims, sound, names, sums, awaited)


def _live_claims(snapshot: Snapshot, now: float) -> dict[str, str]:
    """Claims of the snapshot that still hold, by unit. None does behind one that stops its queue and has none."""
    found = {
        key: unit.claim.member
        for key, unit in snapshot.backlog.odd.items()  # who has a claim is one by itself
        if unit.claim is not None
        and unit.claim.until > now
        and may_start(snapshot, unit, now)
        and unit.claim.member in snapshot.members
        and snapshot.members[unit.claim.member].ready
        and not member_bars(unit, snapshot.members[unit.claim.member])
    }
    ahead = in_the_way(snapshot, {snapshot.units[key].leaf for key in found}, found, now) if found else {}
    return {key: member for key, member in found.items() if not _waits_behind(snapshot.units[key], ahead)}


def _waits_behind(unit: Unit, ahead: Mapping[str, Unit]) -> bool:
    return unit.leaf is not None and unit.leaf in ahead and queue_order(unit) > queue_order(ahead[unit.leaf])


def _unsound_claims(
    snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], known: Mapping[str, str], now: float
) -> Iterable[Violation]:
    seen: set[str] = set()
    passed = {*placed, *known, *(claim.unit for claim in plan.claims)}
    leaves = {unit.leaf for claim in plan.claims if (unit := snapshot.units.get(claim.unit)) is not None}
    ahead = in_the_way(snapshot, leaves, passed, now) if leaves else {}
    for claim in plan.claims:
        unit, member = snapshot.units.get(claim.unit), snapshot.members.get(claim.member)
        problem = ""
        if unit is None or not may_start(snapshot, unit, now):
            problem = "claims room, but could not start"
        elif claim.unit in placed or claim.unit in seen:
            problem = "claims room, but starts or has claimed already"
        elif member is None or not member.ready or member_bars(unit, member):
            problem = f"claims room in {claim.member}, where it may not go"
        elif _waits_behind(unit, ahead):
            problem = "claims room, but may not start before one ahead in its queue"
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


@dataclass(frozen=True, slots=True)
class _Scene:
    """One member where room is claimed: who leaves it; what comes, whatever this plan does; what starts in room that it
    claimed before, and what starts else; claims of before, and new ones."""

    member: Member
    going: Sequence[Unit]
    coming: Sequence[Gang]
    first: Sequence[Gang]
    starting: Sequence[Gang]
    kept: Sequence[Gang]
    wanted: Sequence[Gang]


def _scenes(
    snapshot: Snapshot,
    placed: Mapping[str, str],
    live: Mapping[str, str],
    new: Mapping[str, str],
    claimed: Mapping[str, str],
    gone: Iterable[Unit],
) -> dict[str, _Scene]:
    """By member. `claimed` has all claims that hold, those too whose units start."""
    leaving: dict[str, list[Unit]] = {}
    for unit in gone:
        leaving.setdefault(unit.member or "", []).append(unit)

    def gangs(where: Mapping[str, str], member: str) -> dict[str, Gang]:
        return {key: gang_of(snapshot.units[key]) for key, at in where.items() if at == member}

    found: dict[str, _Scene] = {}
    for member in sorted({*live.values(), *new.values()}):
        going = leaving.get(member, [])
        coming = coming_to(snapshot, member, {unit.id for unit in going})
        starts = gangs(placed, member)
        first = [gang for key, gang in starts.items() if claimed.get(key) == member]
        others = [gang for key, gang in starts.items() if claimed.get(key) != member]
        kept, wanted = (list(gangs(dict(sorted(claims.items())), member).values()) for claims in (live, new))
        found[member] = _Scene(snapshot.members[member], going, coming, first, others, kept, wanted)
    return found


def _room(scenes: Mapping[str, _Scene], names: set[str]) -> Iterable[Violation]:
    """What is claimed fits once all that leaves is gone, and beside all that starts; of two claims that no longer fit
    beside each other one may start."""
    for member, scene in scenes.items():
        after = vacated(scene.member, scene.going)
        claims = [*scene.kept, *scene.wanted]
        lost = set(first_unpackable(after, [*scene.coming, *scene.first], claims, names, thorough=True))
        for gang in scene.wanted:
            if gang.unit in lost:
                yield Violation(Rule.CLAIM_TOO_SMALL, gang.unit, f"{gang.unit} claims room that {member} will not have")
        holds = [*scene.coming, *scene.first, *(gang for gang in claims if gang.unit not in lost)]
        starting = scene.starting
        for key in first_unpackable(after, holds, starting, names, thorough=True) if starting else ():
            yield Violation(Rule.CLAIM_TAKEN, key, f"{key} takes room in {member} that is claimed")


def _stays(
    snapshot: Snapshot,
    scenes: Mapping[str, _Scene],
    victims: Mapping[str, Eviction],
    new: Iterable[str],
    names: set[str],
    sums: Sums | None,
    awaited: Awaited,
) -> Iterable[Violation]:
    """Nobody leaves who could stay. Of whom the inventory does not show all pods it is not asked."""
    going = [snapshot.units[key] for key in victims]
    where = {unit.member for unit in going}
    nodes = {
        name: Nodes(
            scene.member,
            names,
            [*scene.coming, *scene.first, *scene.starting],
            scene.going,
            [*scene.kept, *scene.wanted],
        )
        for name, scene in scenes.items()
        if name in where
    }
    shown = [unit for unit in going if unit.id not in snapshot.backlog.unseen]
    for unit in needless(shown, [snapshot.units[key] for key in new], nodes, sums, awaited):
        text = f"{unit.name} need not leave for {victims[unit.id].preemptor}"
        yield Violation(Rule.EVICTS_NEEDLESSLY, unit.id, text)


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
