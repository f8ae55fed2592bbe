"""The checker's rules about heads, written apart from the planner.

Whoever is called a head waits, may start, and has waited long; a leaf has one; one that is a head already is not passed
over for another while it could still start where it collects. And what starts beside a head leaves its seat: on the
nodes as they will be when it is to start, packed as well as can be, it fits beside all that outlasts that moment. The
planner is stricter, since it does not count on a good packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.check_units import coming_to, emptied, gang_of, may_start, tiers_of
from fleet.model.leaving import leaves, vacated
from fleet.model.matching import member_bars
from fleet.model.unit import Phase, Unit
from fleet.packer import first_unpackable
from fleet.plan import Head, Plan
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree, stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.violation import Rule, Violation


def heads(snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    """Every rule about heads that the plan breaks. `placed`: units that start, with their member."""
    firsts: dict[str | None, str] = {}
    sound: list[Head] = []
    for head in plan.heads:
        problem = _unsound(snapshot, head, placed, firsts, now)
        if problem:
            yield Violation(Rule.HEAD_UNSOUND, head.unit, f"{head.unit} {problem}")
        else:
            firsts[snapshot.units[head.unit].leaf] = head.unit
            sound.append(head)
    yield from _dropped(snapshot, plan, placed, firsts, now)
    if not placed:
        return
    tiers: Mapping[str, Tier] = {}
    # Theirs before any head's.
    claimed = {key: member for key, member in placed.items() if _claimed(snapshot.units[key], member, now)}
    for head in sound:
        if not head.nomination.member:  # it holds nothing yet
            continue
        beside = [
            key
            for key in placed
            if key not in firsts.values()
            and key not in claimed
            and not _ahead(snapshot, snapshot.units[key], head, now)
            and _stays(snapshot, snapshot.units[key], head, now)
        ]
        unit = snapshot.units[head.unit]
        if not beside:
            continue
        firm = {key: at for key, at in claimed.items() if _outlasts(snapshot, snapshot.units[key], head, now)}
        if _takes_seat(snapshot, head, {key: placed[key] for key in beside}, firm, now) is None and not _over(
            snapshot, head, [*beside, *firm], beside, now
        ):
            continue
        tiers = tiers or tiers_of(snapshot, now, {*placed, *firsts.values()})
        mine = min(tiers.get(unit.id, Tier.SHARE), Tier.SHARE)
        bound = [key for key in beside if snapshot.units[key].leaf == unit.leaf or tiers.get(key, Tier.SHARE) >= mine]
        taker = _takes_seat(snapshot, head, {key: placed[key] for key in bound}, firm, now)
        if taker is not None:
            member = head.nomination.member
            yield Violation(Rule.HEAD_TAKEN, taker, f"{taker} takes room in {member} that is collected for {unit.name}")
        elif bound and _over(snapshot, head, [*beside, *firm], bound, now):
            yield Violation(Rule.HEAD_QUOTA, bound[-1], f"{bound[-1]} takes quota that {unit.name} waits for")


def _unsound(
    snapshot: Snapshot, head: Head, placed: Mapping[str, str], firsts: Mapping[str | None, str], now: float
) -> str:
    unit, said = snapshot.units.get(head.unit), head.nomination
    if unit is None or not may_start(snapshot, unit, now) or head.unit in placed:
        return "is a head, but does not wait, or starts"
    if unit.leaf in firsts:
        return f"is a head beside {firsts[unit.leaf]} of the same leaf"
    after = snapshot.config.head_after_s
    if after <= 0 or (unit.head is None and now - unit.enqueued_at < after):
        return "is a head, but has not waited long enough"
    if said.member and said.member not in _open_to(snapshot, unit):
        return f"collects room in {said.member}, where it may not go"
    return "" if said.since <= now else "is a head since a time that is still to come"


def _dropped(
    snapshot: Snapshot, plan: Plan, placed: Mapping[str, str], firsts: Mapping[str | None, str], now: float
) -> Iterable[Violation]:
    served = {*placed, *(claim.unit for claim in plan.claims)}
    for key, unit in snapshot.backlog.odd.items():
        other = firsts.get(unit.leaf)
        if unit.head is None or unit.claim is not None or other is None or key in served:
            continue
        if snapshot.units[other].head is not None or not may_start(snapshot, unit, now):
            continue
        node = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None and unit.leaf is not None else None
        if node is not None and stops(node, unit):
            continue
        where = unit.head.member
        open_to = (name for name in _open_to(snapshot, unit) if not where or name == where)
        rooms = (emptied(snapshot.members[name]) for name in open_to)
        fits = any(room is None or not first_unpackable(room, [], [gang_of(unit)]) for room in rooms)
        if fits and not _never(snapshot.tree, unit):
            yield Violation(Rule.HEAD_DROPPED, other, f"{unit.name} was the head, and {other} is one in its place")


def _open_to(snapshot: Snapshot, unit: Unit) -> list[str]:
    """The members where it may go now."""
    return [name for name, at in snapshot.members.items() if at.ready and not member_bars(unit, at)]


def _never(tree: QuotaTree | None, unit: Unit) -> bool:
    """Whether quota never allows it, or might not: what may not be preempted is bound by promises."""
    if tree is None or unit.leaf is None:
        return False
    request = request_of(unit)
    line = tree.ancestors(unit.leaf)
    return (
        not unit.preemptible
        or any(request[name] > limit for node in line for name, limit in tree.nodes[node].max.items())
        or any(tree.nodes[node].attributes for node in line)
    )


def _claimed(unit: Unit, member: str, now: float) -> bool:
    return unit.claim is not None and unit.claim.member == member and unit.claim.until > now


def _ahead(snapshot: Snapshot, unit: Unit, head: Head, now: float) -> bool:
    """Whether who starts was, or may have been, a head before this one: then this one waits for it."""
    late = head.nomination.became >= now and now - unit.enqueued_at >= snapshot.config.head_after_s
    return late if unit.head is None else unit.head.became <= head.nomination.became


def _stays(snapshot: Snapshot, unit: Unit, head: Head, now: float) -> bool:
    """Whether work that starts now may be there when the head is to start; what the head might take back does not
    count."""
    at = head.nomination.at
    if unit.id == head.unit or (unit.walltime_s is not None and now + unit.walltime_s <= at):
        return False
    config = snapshot.config
    return not (config.reclaim and unit.preemptible and now + config.protection_s <= at)


def _outlasts(snapshot: Snapshot, unit: Unit, head: Head, now: float) -> bool:
    """Whether who starts in claimed room may be there when the head is to start. One that becomes a head now, for a
    moment that is not certain, may wait for it, too."""
    said = head.nomination
    return _stays(snapshot, unit, head, now) and (said.certain or said.since < now or unit.walltime_s is not None)


def _ended(snapshot: Snapshot, unit: Unit, head: Head, now: float) -> bool:
    """Whether what holds room now is counted as gone by then, as the head would have it."""
    said, config = head.nomination, snapshot.config
    if unit.phase is Phase.EVICTING:
        return leaves(unit, now, config.claim_s)
    since = now if unit.placed_at is None else unit.placed_at
    if unit.walltime_s is not None and max(now, since + unit.walltime_s) <= said.at:
        return True
    if config.reclaim and unit.preemptible and max(now, since + config.protection_s) <= said.at:
        return True
    return not said.certain and unit.walltime_s is None and (unit.placed_at is None or unit.placed_at < said.since)


def _takes_seat(
    snapshot: Snapshot, head: Head, beside: Mapping[str, str], claimed: Mapping[str, str], now: float
) -> str | None:
    """The first unit of `beside`, in the order of the plan, beside which the head does not fit its member any more.
    `claimed`: who starts in room that is its own."""
    where = head.nomination.member
    here = [key for key, member in beside.items() if member == where]
    if not here:
        return None
    holding = [unit for unit in snapshot.backlog.holding.values() if unit.member == where]
    gone = [unit for unit in holding if _ended(snapshot, unit, head, now)]
    after = vacated(snapshot.members[where], gone)
    own = (gang_of(snapshot.units[key]) for key, member in claimed.items() if member == where)
    coming = [*coming_to(snapshot, where, {unit.id for unit in gone}), *own]
    mine = gang_of(snapshot.units[head.unit])
    names = {
        name
        for unit in (*holding, *(snapshot.units[key] for key in (*here, head.unit)))
        for part in unit.components
        for name, _ in part.requests.items_
    }

    def fits(count: int) -> bool:
        others = [gang_of(snapshot.units[key]) for key in here[:count]]
        return not first_unpackable(after, coming, [mine, *others], names) or not first_unpackable(
            after, coming, [*others, mine], names
        )

    if not fits(0) or fits(len(here)):
        return None
    return next(key for count, key in enumerate(here, 1) if not fits(count))


def _over(snapshot: Snapshot, head: Head, beside: Iterable[str], blamed: Iterable[str], now: float) -> bool:
    """Whether the head would be above max when it is to start, and not without `blamed`, which are of `beside`."""
    unit, tree = snapshot.units[head.unit], snapshot.tree
    if tree is None or unit.leaf is None:
        return False
    asked = request_of(unit)
    stay = [u for u in snapshot.backlog.holding.values() if not _ended(snapshot, u, head, now)]
    started = [snapshot.units[key] for key in beside]
    names = set(blamed)
    for node in tree.ancestors(unit.leaf):
        below = [u for u in (*stay, *started) if u.leaf is not None and f"{u.leaf}/".startswith(f"{node}/")]
        for name, limit in tree.nodes[node].max.items():
            used = asked[name] + sum(request_of(u)[name] for u in below)
            without = used - sum(request_of(u)[name] for u in below if u.id in names)
            if asked[name] and without <= limit < used:
                return True
    return False
