"""The checker's rules about heads, written apart from the planner.

Whoever is called a head waits, may start, and has waited long; a leaf has one; one that is a head already is not passed
over for another while it could still start where it collects. Who becomes one has a right to it: if nothing ran, it
would fit, and quota would allow it; nobody before it stops its queue; and it is within the guarantee or the share of
its leaf beside what was before it. And what starts beside a head leaves its seat: on the
nodes as they will be when it is to start, packed as well as can be, it fits beside all that outlasts that moment. The
planner is stricter, since it does not count on a good packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.check.packer import first_unpackable
from fleet.check.ranks import Ranks, above_max, never, too_large
from fleet.check.units import coming_to, emptied, gang_of, may_start
from fleet.check.violation import Rule, Violation
from fleet.model.amounts import Amounts
from fleet.model.leaving import leaves, vacated
from fleet.model.matching import member_bars
from fleet.model.member import Member
from fleet.model.order import queue_order
from fleet.model.plan import Head, Plan
from fleet.model.unit import Phase, Unit
from fleet.quota.tiers import Tier
from fleet.quota.tree import stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot

_MANY = 1 << 20


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
    ranks = Ranks(snapshot, {*placed, *firsts.values()}, now)
    for head in sound:
        unit = snapshot.units[head.unit]
        why = _unentitled(snapshot, unit, ranks, now) if unit.head is None else ""
        if why:
            yield Violation(Rule.HEAD_UNENTITLED, unit.id, f"{unit.name} becomes a head, but {why}")
    if not placed:
        return
    claimed = [key for key, member in placed.items() if _claimed(snapshot.units[key], member, now)]
    for number, head in enumerate(sound):
        if head.nomination.member:  # else it holds nothing yet
            yield from _seat(snapshot, head, sound[:number], placed, claimed, ranks, now)


def _seat(
    snapshot: Snapshot,
    head: Head,
    ahead: Sequence[Head],
    placed: Mapping[str, str],
    claimed: Sequence[str],
    ranks: Ranks,
    now: float,
) -> Iterable[Violation]:
    """What starts beside a head and breaks its seat, or takes its quota. It is measured at the moment that was told,
    and from the first on that made this impossible by right, at the one that the head is delayed to. Those `ahead` of
    it, which will start before it, may have made it so already."""
    unit, told = snapshot.units[head.unit], head.nomination.at
    before = {key for key in placed if key in claimed or ahead_of(snapshot, snapshot.units[key], head, now)}
    beside = {
        key for key in placed if key not in before and stays(snapshot, snapshot.units[key], head, ranks, now, told)
    }
    if not beside:
        return
    line = [*claimed, *(key for key in placed if key in before | beside and key not in claimed)]
    done = len(claimed)
    for at in (told,) if head.delayed is None or head.delayed <= told else (told, head.delayed):
        then = Then(snapshot, head, at, placed, ranks, now)
        if then.spares(line):
            return
        if at != (head.delayed or at) and not then.fits((), ahead):
            continue
        if not then.spares(line[:done]):
            continue
        low, high = done, len(line)  # with `low` of them it is as it was told, with `high` it is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if then.spares(line[:middle]) else (low, middle)
        taker, done = line[low], high
        if taker in beside and not ranks.passes(snapshot.units[taker], unit):
            if then.fits(line[:high]):
                yield Violation(Rule.HEAD_QUOTA, taker, f"{taker} takes quota that {unit.name} waits for")
            else:
                where = head.nomination.member
                text = f"{taker} takes room in {where} that is collected for {unit.name}"
                yield Violation(Rule.HEAD_TAKEN, taker, text)
            return


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


def _unentitled(snapshot: Snapshot, unit: Unit, ranks: Ranks, now: float) -> str:
    """Why a unit has no right to become a head; "" where it has. What this cannot tell is allowed."""
    if above_max(snapshot.tree, unit):
        return "quota never allows it"
    rooms = [emptied(snapshot.members[name]) for name in _open_to(snapshot, unit)]
    if all(room is not None and too_large(unit, room) for room in rooms):
        return "no member that it may go to would take it"
    if ranks.counts_on(unit) > Tier.CROSSING:
        return f"what was before it uses up the guarantee and the share of {unit.leaf}"
    strict = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None and unit.leaf is not None else None
    if strict is not None and strict.policy in ("Block", "Intelligent"):
        backlog = snapshot.backlog
        for other in (*(lot.units[0] for lot in backlog.lots.values()), *backlog.odd.values()):
            before = other.leaf == unit.leaf and other.claim is None and queue_order(other) < queue_order(unit)
            if before and stops(strict, other) and may_start(snapshot, other, now):
                return f"{other.name} is before it and stops {unit.leaf}"
    return ""


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
        if fits and not never(snapshot.tree, unit):
            yield Violation(Rule.HEAD_DROPPED, other, f"{unit.name} was the head, and {other} is one in its place")


def _open_to(snapshot: Snapshot, unit: Unit) -> list[str]:
    """The members where it may go now."""
    return [name for name, at in snapshot.members.items() if at.ready and not member_bars(unit, at)]


def _claimed(unit: Unit, member: str, now: float) -> bool:
    return unit.claim is not None and unit.claim.member == member and unit.claim.until > now


def ahead_of(snapshot: Snapshot, unit: Unit, head: Head, now: float) -> bool:
    """Whether who starts was, or may have been, a head before this one: then this one waits for it."""
    late = head.nomination.became >= now and now - unit.enqueued_at >= snapshot.config.head_after_s
    return late if unit.head is None else unit.head.became <= head.nomination.became


def stays(snapshot: Snapshot, unit: Unit, head: Head, ranks: Ranks, now: float, at: float) -> bool:
    """Whether work that starts now may be there at some time when the head might start."""
    if unit.id == head.unit or (unit.walltime_s is not None and now + unit.walltime_s <= at):
        return False
    return not ranks.takes_back(snapshot.units[head.unit], unit, now, at)


class Then:
    """The nodes of a head's member, and quota, at the moment when it is to start."""

    def __init__(
        self, snapshot: Snapshot, head: Head, at: float, placed: Mapping[str, str], ranks: Ranks, now: float
    ) -> None:
        self._snapshot = snapshot
        self._head = head
        self._unit = snapshot.units[head.unit]
        self._at = at
        self._placed = placed
        self._ranks = ranks
        self._now = now
        self._where = head.nomination.member
        holding = [unit for unit in snapshot.backlog.holding.values() if unit.member == self._where]
        gone = [unit for unit in holding if self.ended(unit)]
        self._after = vacated(snapshot.members[self._where], gone)
        if any(unit.visible and not unit.seats for unit in gone):
            self._after = _roomy(self._after)
        self._coming = coming_to(snapshot, self._where, {unit.id for unit in gone})
        here = (snapshot.units[key] for key, member in placed.items() if member == self._where)
        units = (self._unit, *holding, *here)
        self._names = {name for unit in units for part in unit.components for name, _ in part.requests.items_}

    def spares(self, starting: Sequence[str]) -> bool:
        """Whether the head has room and quota beside these."""
        return self.fits(starting) and not self.over(starting)

    def fits(self, starting: Iterable[str], ahead: Iterable[Head] = ()) -> bool:
        """Whether the head fits its member beside these, and beside heads that will be there."""
        here = (self._snapshot.units[key] for key in starting if self._placed[key] == self._where)
        others = [gang_of(self._snapshot.units[other.unit]) for other in ahead if self._will_be_there(other)]
        others += [gang_of(unit) for unit in here if self.outlasts(unit)]
        mine = gang_of(self._unit)
        return any(
            not first_unpackable(self._after, self._coming, order, self._names)
            for order in ([mine, *others], [*others, mine])
        )

    def over(self, starting: Iterable[str]) -> bool:
        """Whether the head is above max beside these."""
        unit, tree = self._unit, self._snapshot.tree
        if tree is None or unit.leaf is None:
            return False
        asked = request_of(unit)
        limits = [
            (f"{node}/", name, limit)
            for node in tree.ancestors(unit.leaf)
            for name, limit in tree.nodes[node].max.items()
            if asked[name]
        ]
        if not limits:
            return False
        stay = [other for other in self._snapshot.backlog.holding.values() if not self.ended(other)]
        stay += [other for key in starting if self.outlasts(other := self._snapshot.units[key])]
        used = [(f"{other.leaf}/", request_of(other)) for other in stay if other.leaf is not None]
        return any(
            asked[name] + sum(request[name] for leaf, request in used if leaf.startswith(node)) > limit
            for node, name, limit in limits
        )

    def _will_be_there(self, head: Head) -> bool:
        walltime, said = self._snapshot.units[head.unit].walltime_s, head.nomination
        ends = said.certain and walltime is not None and said.at + walltime <= self._at
        return said.member == self._where and not ends

    def outlasts(self, unit: Unit) -> bool:
        """Whether who starts now may be there then. One that becomes a head now, for a moment that is not certain, may
        wait for who starts in claimed room, too."""
        said = self._head.nomination
        waits_for = not said.certain and said.since >= self._now and unit.walltime_s is None
        said_where = unit.claim.member if unit.claim is not None else ""
        if waits_for and _claimed(unit, self._placed.get(unit.id, said_where), self._now):
            return False
        return stays(self._snapshot, unit, self._head, self._ranks, self._now, self._at)

    def ended(self, unit: Unit) -> bool:
        """Whether what holds room now is counted as gone by then, as the head would have it."""
        said, now, at = self._head.nomination, self._now, self._at
        if unit.phase is Phase.EVICTING:
            return leaves(unit, now, self._snapshot.config.claim_s)
        since = now if unit.placed_at is None else unit.placed_at
        if unit.walltime_s is not None and max(now, since + unit.walltime_s) <= at:
            return True
        if self._ranks.takes_back(self._unit, unit, since, at):
            return True
        return not said.certain and unit.walltime_s is None and (unit.placed_at is None or unit.placed_at < said.since)


def _roomy(member: Member) -> Member:
    """Where it is not known who shares a node, each pod that leaves is counted as a place of its own, for as many pods
    as were there: but it is part of a node, which takes more."""
    more = Amounts.of({"pods": _MANY})
    pools = (
        replace(pool, free=tuple((vector.plus(more), nodes) for vector, nodes in pool.free)) for pool in member.pools
    )
    return replace(member, pools=tuple(pools))
