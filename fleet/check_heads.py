"""The checker's rules about heads, written apart from the planner.

Whoever is called a head waits, may start, and has waited long; a leaf has one; one that is a head already is not passed
over for another while it could still start where it collects. And what starts beside a head leaves its seat: on the
nodes as they will be when it is to start, packed as well as can be, it fits beside all that outlasts that moment. The
planner is stricter, since it does not count on a good packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from fleet.check_units import coming_to, counted, emptied, gang_of, may_start, stops_leaf, tiers_of
from fleet.model.amounts import Amounts
from fleet.model.leaving import leaves, vacated
from fleet.model.matching import member_bars
from fleet.model.member import Member
from fleet.model.unit import Phase, Unit
from fleet.packer import first_unpackable
from fleet.plan import Head, Plan
from fleet.quota.guarantee import capacity, guarantees, with_potential
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree, stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.violation import Rule, Violation

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
    if not placed:
        return
    claimed = [key for key, member in placed.items() if _claimed(snapshot.units[key], member, now)]
    ranks = _Ranks(snapshot, {*placed, *firsts.values()}, now)
    for head in sound:
        if head.nomination.member:  # else it holds nothing yet
            yield from _seat(snapshot, head, placed, claimed, ranks, now)


def _seat(
    snapshot: Snapshot, head: Head, placed: Mapping[str, str], claimed: Sequence[str], ranks: _Ranks, now: float
) -> Iterable[Violation]:
    """What starts beside a head and breaks its seat, or takes its quota. It is measured at the moment that was told,
    and from the first on that made this impossible by right, at the one that the head is delayed to."""
    unit, told = snapshot.units[head.unit], head.nomination.at
    before = {key for key in placed if key in claimed or _ahead(snapshot, snapshot.units[key], head, now)}
    beside = {
        key for key in placed if key not in before and _stays(snapshot, snapshot.units[key], head, ranks, now, told)
    }
    if not beside:
        return
    line = [*claimed, *(key for key in placed if key in before | beside and key not in claimed)]
    done = len(claimed)
    for at in (told,) if head.delayed is None or head.delayed <= told else (told, head.delayed):
        then = _Then(snapshot, head, at, placed, ranks, now)
        if then.spares(line):
            return
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


class _Ranks:
    """Who may count on what, worked out when it is asked first: that costs what there is."""

    def __init__(self, snapshot: Snapshot, about: Set[str], now: float) -> None:
        self._snapshot = snapshot
        self._about = about
        self._now = now
        self._tiers: Mapping[str, Tier] | None = None
        self._mins: Mapping[str, Mapping[str, int]] | None = None

    def tier(self, unit: str) -> Tier:
        if self._tiers is None:
            self._tiers = tiers_of(self._snapshot, self._now, self._about)
        return self._tiers.get(unit, Tier.SHARE)

    def passes(self, unit: Unit, head: Unit) -> bool:
        """Whether who starts goes before a head by right: in its own leaf a head is first; others pass it by tier, or
        as heads of a higher one, which is measured by what of their leaf came before them."""
        mine = min(self.tier(head.id), Tier.SHARE)
        if unit.leaf == head.leaf or mine is Tier.GUARANTEED:
            return False
        late = self._now - unit.enqueued_at >= self._snapshot.config.head_after_s
        return self.tier(unit.id) < mine or ((late or unit.head is not None) and self._came_within_min(unit))

    def _came_within_min(self, unit: Unit) -> bool:
        """Whether it is within what its leaf is promised beside what of the leaf runs and is before it by its turn."""
        limits = self._promises.get(unit.leaf or "", {})
        asked = {name: amount for name, amount in counted(unit).items() if name in self._named and amount}
        before = [
            counted(other)
            for other in self._snapshot.backlog.holding.values()
            if other.leaf == unit.leaf and _turn(other) < _turn(unit)
        ]
        return bool(asked) and all(
            amount + sum(other.get(name, 0) for other in before) <= limits.get(name, 0)
            for name, amount in asked.items()
        )

    @property
    def _promises(self) -> Mapping[str, Mapping[str, int]]:
        """What holds of every min now, by node."""
        if self._mins is None:
            tree, members = self._snapshot.tree, self._snapshot.members
            total = with_potential(capacity(members, self._snapshot.backlog.holding.values()), members)
            self._mins = guarantees(tree, total).min if tree is not None else {}
        return self._mins

    @property
    def _named(self) -> Set[str]:
        return {name for limits in self._promises.values() for name in limits}

    def takes_back(self, head: Unit, other: Unit, since: float, at: float) -> bool:
        """Whether a head counts on taking back, by then, the room of what runs since an epoch second. Only a guaranteed
        one does, and from a leaf to which nothing is promised: what is borrowed there stays borrowed."""
        config, tree = self._snapshot.config, self._snapshot.tree
        if not config.reclaim or tree is None or not other.preemptible or other.leaf is None or head.leaf is None:
            return False
        hidden = any(pods for pods, _, _ in gang_of(other, hidden=True).parts)
        old = other.phase is Phase.PLACED and other.placed_at is None and not hidden
        if (self._now if old else max(self._now, since + config.protection_s)) > at:
            return False
        node = tree.nodes.get(head.leaf)
        policy = node.attributes.get("preempt-policy", "") if node is not None else "Never"
        spares = {
            "Never": True, "AnyPriority": False, "PreemptLowerPriority": other.priority >= head.priority,
        }.get(policy, other.priority > head.priority)  # fmt: skip
        if spares or stops_leaf(self._snapshot, head):
            return False
        promised, theirs = (any(self._promises.get(leaf, {}).values()) for leaf in (head.leaf, other.leaf))
        if not promised or theirs:
            return False
        return self.tier(head.id) is Tier.GUARANTEED


def _turn(unit: Unit) -> tuple[int, float, str, str]:
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)


def _stays(snapshot: Snapshot, unit: Unit, head: Head, ranks: _Ranks, now: float, at: float) -> bool:
    """Whether work that starts now may be there at some time when the head might start."""
    if unit.id == head.unit or (unit.walltime_s is not None and now + unit.walltime_s <= at):
        return False
    return not ranks.takes_back(snapshot.units[head.unit], unit, now, at)


class _Then:
    """The nodes of a head's member, and quota, at the moment when it is to start."""

    def __init__(
        self, snapshot: Snapshot, head: Head, at: float, placed: Mapping[str, str], ranks: _Ranks, now: float
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
        gone = [unit for unit in holding if self._ended(unit)]
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

    def fits(self, starting: Iterable[str]) -> bool:
        """Whether the head fits its member beside these."""
        here = (self._snapshot.units[key] for key in starting if self._placed[key] == self._where)
        others = [gang_of(unit) for unit in here if self._outlasts(unit)]
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
        stay = [other for other in self._snapshot.backlog.holding.values() if not self._ended(other)]
        stay += [other for key in starting if self._outlasts(other := self._snapshot.units[key])]
        used = [(f"{other.leaf}/", request_of(other)) for other in stay if other.leaf is not None]
        return any(
            asked[name] + sum(request[name] for leaf, request in used if leaf.startswith(node)) > limit
            for node, name, limit in limits
        )

    def _outlasts(self, unit: Unit) -> bool:
        """Whether who starts now may be there then. One that becomes a head now, for a moment that is not certain, may
        wait for who starts in claimed room, too."""
        said = self._head.nomination
        waits_for = not said.certain and said.since >= self._now and unit.walltime_s is None
        if waits_for and _claimed(unit, self._placed[unit.id], self._now):
            return False
        return _stays(self._snapshot, unit, self._head, self._ranks, self._now, self._at)

    def _ended(self, unit: Unit) -> bool:
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
