"""Why a unit waits: its one dominant reason (I9), with the numbers that a person needs.

Dominance, first that holds: the unit itself is bad, held or backing off; it has no queue; no member could ever take
it; its queue is stopped by one ahead; its quota is used up; no member is ready; no member has room. Quota stands before
room because it is what the queue asks first, and because it is what the user's own jobs can free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from operator import itemgetter

from fleet.model.member import Member
from fleet.model.reason import Code, Reason, Severity, instant
from fleet.model.unit import Component, Unit
from fleet.placement.candidates.candidate import Candidate, Group, order, standing
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.explain.closest import closest
from fleet.placement.explain.nodefit import Stock, no_node, no_nodes
from fleet.placement.greedy.greedy import Pass
from fleet.placement.greedy.ground import Ground
from fleet.placement.packing.room import MemberRoom, Space
from fleet.placement.reservation.hold import Hold
from fleet.quota.tiers import Tier
from fleet.quota.tree import MAX_JOBS, QuotaTree
from fleet.quota.usage import FIRM, Refusal, Usage, request_of
from fleet.quota.users import account, split

_MOST_REPLICAS = 1_000_000
_MOST_AMOUNT = 1 << 62
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS, Code.BEHIND_HEAD)
_OF_QUOTA = (Code.QUOTA_EXHAUSTED, Code.MIN_EXHAUSTED, Code.MAX_JOBS)


def defect(components: tuple[Component, ...]) -> tuple[str, str] | None:
    """What makes a gang impossible to decide about, as (field, problem), or None."""
    if not components:
        return ("components", "a gang needs at least one component")
    for index, component in enumerate(components):
        where = f"components[{index}]"
        if component.replicas < 0:
            return (f"{where}.replicas", f"{component.replicas} is below zero")
        if component.replicas > _MOST_REPLICAS:
            return (f"{where}.replicas", f"{component.replicas} is above {_MOST_REPLICAS}")
        for name, amount in component.requests.items_:
            if not 0 <= amount <= _MOST_AMOUNT:
                return (f"{where}.requests[{name}]", f"{amount} is not between 0 and 2^62")
    if not any(component.replicas for component in components):
        return ("components", "a gang needs at least one pod")
    return None


def early(unit: Unit, bad: tuple[str, str] | None, tree: QuotaTree | None, now: float) -> Reason | None:
    """The reason that is known before anything is placed, or None. `bad`: the `defect` of its components."""
    if bad is not None:
        return Reason(Code.BAD_UNIT, {"field": bad[0], "problem": bad[1]})
    if unit.suspended:
        return Reason(Code.SUSPENDED)
    if unit.held and unit.waits_turn:
        return Reason(Code.NOT_ITS_TURN, {"why": unit.held_why})
    if unit.held:
        return Reason(Code.HELD, {"why": unit.held_why} if unit.held_why else {})
    if unit.backoff_until is not None and unit.backoff_until > now:
        numbers: dict[str, str | int] = {"until": instant(unit.backoff_until), "attempts": unit.attempts}
        return Reason(Code.BACK_OFF, numbers | ({"why": unit.failed_why} if unit.failed_why else {}))
    if unit.leaf is not None and (tree is None or not tree.is_leaf(unit.leaf)):
        return Reason(Code.NO_LEAF, {"leaf": unit.leaf, "tree": "none" if tree is None else tree.root})
    return None


class Nevers:
    """Whether a gang would fit no member even if nothing ran there; answers are kept by shape and eligibility."""

    def __init__(self, members: Mapping[str, Member], space: Space) -> None:
        self._members = members
        self._space = space
        self._never: dict[tuple[int, int], bool] = {}
        self._empty: dict[str, MemberRoom | None] = {}
        self._stocks: dict[str, Stock] = {}

    def of(self, shape: int, eligibility: Eligibility) -> bool:
        key = (shape, eligibility.number)
        if key not in self._never:
            rooms = self.rooms(shape, eligibility)
            self._never[key] = any(pool.counts for room in rooms for pool in room.pools)
        return self._never[key]

    def rooms(self, shape: int, eligibility: Eligibility) -> list[MemberRoom]:
        """The members that may take it, empty, when none of them has room even so; none when one has, or may have."""
        empty: list[MemberRoom] = []
        for name in eligibility.allowed:
            if name not in self._empty:
                self._empty[name] = MemberRoom.emptied(self._members[name], self._space)
            room = self._empty[name]
            if room is None or room.fit(self._space.shapes[shape], self._space.devices) is not None:
                return []
            empty.append(room)
        return empty

    def reason(self, shape: int, eligibility: Eligibility) -> Reason | None:
        """Why it would fit no member even if nothing ran there; None when it would fit one."""
        if not self.of(shape, eligibility):
            return None
        parts = self._space.shapes[shape]
        for name in eligibility.allowed:
            if name not in self._stocks:
                self._stocks[name] = Stock.of(self._members[name])
        found = no_node(parts, [self._stocks[name] for name in eligibility.allowed], self._space)
        if found is not None:
            return found
        return Reason(Code.TOO_LARGE, closest(parts, self.rooms(shape, eligibility), self._space, empty=True))

    def unschedulable(self, name: str) -> dict[str, str | int]:
        """A number for a reason: the nodes of a member that take no new pods, if it has such."""
        nodes = self._members[name].unschedulable
        return {"unschedulable": nodes} if nodes else {}

    def no_nodes(self, names: Iterable[str]) -> dict[str, str | int]:
        """The numbers of a reason that none of these members has a node that takes pods."""
        return no_nodes([self._members[name] for name in names])


class Explainer:
    """Reasons for the candidates that a finished pass left waiting. Equal ones share one Reason."""

    def __init__(
        self,
        nevers: Nevers,
        before: Mapping[str, MemberRoom],
        ground: Ground,
        space: Space,
        overdue: Sequence[Unit] = (),
        placed: Sequence[tuple[Candidate, str]] = (),
        kept: Sequence[tuple[Candidate, str]] = (),
    ) -> None:
        """`before`: rooms before anything of this plan was placed; `ground`: after all of it; `overdue`: units that
        leave, and have for so long that nobody counts on their room any more; `placed`: what took room since `before`;
        `kept`: the units for which room and quota are kept while others leave."""
        self._overdue = overdue
        self._kept = kept
        self._takers: dict[str, list[Candidate]] = {}
        for candidate, member in placed:
            self._takers.setdefault(member, []).append(candidate)
        self._nevers = nevers
        self._before = before
        self._ground = ground
        self._space = space
        self._devices = space.devices
        self._quota: dict[tuple[str, int], Reason | None] = {}
        self._never: dict[tuple[int, int], Reason | None] = {}
        self._room: dict[tuple[int, int], Reason] = {}
        self._tiered: dict[tuple[int, Tier], tuple[Reason, Reason]] = {}
        self._behind: dict[tuple[str | None, int, int, int], Reason | None] = {}

    def all(self, groups: Iterable[Group], started: Set[str], done: Pass) -> dict[str, Reason]:
        """One reason for each unit of `groups` that is not among `started`; `done` names the heads of stopped queues.
        Those of a group that wait in one tier share their reason, but for positions in a stopped queue."""
        reasons: dict[str, Reason] = {}
        stopped: dict[str, list[Group]] = {}
        for group in groups:
            if group.leaf in done.stopped:
                stopped.setdefault(group.leaf or "", []).append(group)
                continue
            for tier, start, end in group.segments:
                for first, bound, ids in self._alike(group, tier, start, end, started):
                    candidate = group.candidate(first)
                    reason = self._behind_head(candidate, bound) if bound else None
                    reason = reason or self.one(candidate)
                    reasons.update(dict.fromkeys(ids, self._in_tier(reason, group.leaf, tier)))
        for leaf, queue in stopped.items():
            self._in_line(leaf, queue, started, reasons)
        for hold in self._ground.holds:
            known = reasons.get(hold.head.unit.id)
            if known is not None and known.code in _OF_ROOM:
                reasons[hold.head.unit.id] = self._in_tier(self._collects(hold), hold.head.unit.leaf, hold.head.tier)
        return reasons

    def _alike(
        self, group: Group, tier: Tier, start: int, end: int, started: Set[str]
    ) -> Iterable[tuple[int, int, Sequence[str]]]:
        """Those of a range that wait, by where they are charged and which heads bind them: the index of one, the heads
        as bits, and ids."""
        ids, ground = group.ids[start:end], self._ground
        binding = ground.binding(group, tier, start)
        if not group.by_user and not binding:
            if not started.isdisjoint(ids):
                ids = [key for key in ids if key not in started]
            return [(start, 0, ids)] if ids else []
        found: dict[tuple[str | None, int], tuple[int, int, list[str]]] = {}
        for index, key in enumerate(ids, start):
            if key not in started:
                bound = ground.standing(binding, group.units[index])
                found.setdefault((group.account(index), bound), (index, bound, []))[2].append(key)
        return found.values()

    def _behind_head(self, candidate: Candidate, bound: int) -> Reason | None:
        """Which head it waits behind, of those that bind it, if it would start but for that."""
        ground = self._ground
        if not candidate.eligibility.choices or not ground.admits(candidate):
            return None
        key = (candidate.account, candidate.shape, candidate.eligibility.number, bound)
        if key not in self._behind:
            best = ground.best(candidate.shape, candidate.eligibility)
            ahead = [hold for number, hold in enumerate(ground.holds) if bound & 1 << number]
            by_quota = [hold for hold in ahead if not hold.spares_quota(candidate)]
            by_room = [hold for hold in ahead if best is not None and not hold.spares_room(candidate.shape)]
            here = [hold for hold in by_room if best is not None and hold.member == best[0]]
            reason = None
            member = best[0] if best is not None else self._kept_from(candidate)
            if best is None and member is not None and not by_quota:
                by_room = here = [ground.withheld[member][1]]
            if member is not None and (by_quota or by_room):
                hold = (by_quota or here or by_room)[0]
                where = hold.member if best is not None else member
                what = "quota is" if by_quota else f"room in member {where} is"
                numbers: dict[str, str | int] = {"head": hold.head.unit.name, "what": what}
                if hold.nomination.at > hold.now:  # else nothing ends before it any more
                    numbers["at"] = instant(hold.nomination.at)
                reason = Reason(Code.BEHIND_HEAD, numbers)
            self._behind[key] = reason
        return self._behind[key]

    def _kept_from(self, candidate: Candidate) -> str | None:
        """A member where it would find room but for what is kept there for a head's sake."""
        shape, withheld = self._space.shapes[candidate.shape], self._ground.withheld
        names = (choice.member for choice in candidate.eligibility.choices if choice.member in withheld)
        return next((name for name in names if withheld[name][0].fit(shape, self._devices) is not None), None)

    def _collects(self, hold: Hold) -> Reason:
        shape = self._space.shapes[hold.head.shape]
        pods = sum(part.replicas for part in shape)
        missing = sum(self._ground.rooms[hold.member].missing(shape, self._devices))
        numbers: dict[str, str | int] = {"member": hold.member, "have": pods - missing, "pods": pods}
        at = next((at for at in (hold.nomination.at, hold.delayed) if at is not None and at > hold.now), None)
        said = hold.nomination.certain
        if at is None:
            when = "as soon as the room is free" if said else "when what was there before has ended"
            return Reason(Code.COLLECTS, {**numbers, "when": when})
        told = instant(at)
        when = f"about {told}" if said else f"not before {told}, when what was there before has ended"
        return Reason(Code.COLLECTS, {**numbers, "when": when, "at": told})

    def _in_line(self, leaf: str, groups: Sequence[Group], started: Set[str], reasons: dict[str, Reason]) -> None:
        """Reasons in a queue that starts nobody before its head: all but the head wait for it."""
        line = [
            (order(unit), index, group)
            for group in groups
            for index, unit in enumerate(group.units)
            if unit.id not in started
        ]
        line.sort(key=itemgetter(0))
        head = ("", "")
        for position, (_, index, group) in enumerate(line, 1):
            unit = group.units[index]
            if position == 1 or self._never_fits(group) is not None:
                reasons[unit.id] = self._in_tier(self.one(group.candidate(index)), leaf, group.candidate(index).tier)
            else:
                numbers: dict[str, str | int] = {"position": position, "leaf": leaf, "head": head[0], "why": head[1]}
                reasons[unit.id] = Reason(Code.BEHIND_IN_QUEUE, numbers)
            if position == 1:
                head = (unit.name, reasons[unit.id].code.value)

    def behind_kept(self, groups: Iterable[Group], kept: Sequence[Candidate], done: Set[str]) -> dict[str, Reason]:
        """Reasons of those of `groups`, in queues that one of `kept` stops, that are not `done`: they wait for it."""
        reasons: dict[str, Reason] = {}
        lines: dict[str, list[tuple[Unit, Group]]] = {}
        for group in groups:
            lines.setdefault(group.leaf or "", []).extend((unit, group) for unit in group.units if unit.id not in done)
        for leaf, line in lines.items():
            ahead = sorted((c.unit for c in kept if c.unit.leaf == leaf), key=order)
            line.sort(key=lambda item: order(item[0]))
            for position, (unit, group) in enumerate(line, 1 + len(ahead)):
                never = self._never_fits(group)
                numbers: dict[str, str | int] = {
                    "position": position, "leaf": leaf, "head": ahead[0].name, "why": Code.ROOM_CLAIMED.value,
                }  # fmt: skip
                reasons[unit.id] = never or Reason(Code.BEHIND_IN_QUEUE, numbers)
        return reasons

    def _in_tier(self, reason: Reason, leaf: str | None, tier: Tier) -> Reason:
        """The reason, and in which tier it waits, if it waits in one."""
        if leaf is None or reason.severity is Severity.ERROR:
            return reason
        key = (id(reason), tier)  # reasons are kept by those who make them, so an id stays theirs
        known = self._tiered.get(key)
        if known is None:
            tiered = Reason(reason.code, {**reason.numbers, "tier": tier.name.capitalize()})
            if self._overdue and tier < Tier.BORROWED:  # who may have been told that room is freed for it
                tiered = self._still_leaving(tiered)
            known = self._tiered[key] = (reason, tiered)
        return known[1]

    def _still_leaving(self, reason: Reason) -> Reason:
        """The reason, and who of those that it is about should have left by now."""
        node, usage, resource = reason.numbers.get("node"), self._ground.usage, str(reason.numbers.get("resource"))
        held: list[Unit] = []
        if reason.code in _OF_QUOTA and usage is not None:
            there = (unit for unit in self._overdue if unit.leaf is not None and node in usage.path(unit.leaf))
            held = [unit for unit in there if request_of(unit)[resource]]
        elif reason.code in _OF_ROOM:
            held = [unit for unit in self._overdue if unit.member == reason.numbers.get("member")]
        if not held:
            return reason
        others = f" and {len(held) - 1} more" if len(held) > 1 else ""
        name = min(unit.name for unit in held)
        return Reason(reason.code, {**reason.numbers, "leaving": f"{name}{others}"})

    def one(self, kind: Candidate) -> Reason:
        """The dominant reason of one that is first in its queue, or in a queue where that does not matter."""
        refusal = kind.eligibility.refusal
        if refusal is not None and refusal.code is not Code.MEMBER_NOT_READY:
            return refusal
        return (
            self._never_fits(kind)
            or self._quota_refuses(kind)
            or refusal
            or self._no_room(kind.shape, kind.eligibility)
        )

    def _quota_refuses(self, kind: Candidate) -> Reason | None:
        account, usage = kind.account, self._ground.usage
        if account is None or usage is None:
            return None
        if not usage.caps_refuse(account, kind.request):  # then it is as for all of the leaf
            account = split(account)[0]
        key = (account, id(kind.request))  # requests are kept by those who ask, so an id stays theirs
        if key not in self._quota:
            refusal = usage.refusal(account, kind.request)
            self._quota[key] = None if refusal is None else self._reserved_apart(refusal, usage)
        return self._quota[key]

    def _reserved_apart(self, refusal: Refusal, usage: Usage) -> Reason:
        """The reason of a refusal; what is kept there for units whose room is being freed is told beside what is
        used: the quota that they take over may be in use still."""
        reason = quota_reason(refusal)
        at = account(refusal.node, refusal.user) if refusal.user else refusal.node
        mine = [c for c, _ in self._kept if c.account is not None and at in usage.path(c.account)]
        reserved = sum(candidate.request[refusal.resource] for candidate in mine)
        if not reserved:
            return reason
        used = refusal.used - refusal.kept - reserved
        return Reason(reason.code, {**reason.numbers, "used": used, "reserved": reserved, "preemptor": _first(mine)})

    def _never_fits(self, kind: Candidate | Group) -> Reason | None:
        """Why no member that policy allows would take it even empty; None when one would."""
        key = (kind.shape, kind.eligibility.number)
        if key not in self._never:
            self._never[key] = self._nevers.reason(kind.shape, kind.eligibility)
        return self._never[key]

    def _no_room(self, shape: int, eligibility: Eligibility) -> Reason:
        key = (shape, eligibility.number)
        if key not in self._room:
            parts = self._space.shapes[shape]
            names = [choice.member for choice in eligibility.choices]
            rooms = [self._ground.rooms[name] for name in names]
            if not any(pool.counts for room in rooms for pool in room.pools):
                self._room[key] = Reason(Code.NO_MEMBER_FITS, self._nevers.no_nodes(names))
                return self._room[key]
            numbers = closest(parts, rooms, self._space, empty=False)
            numbers |= self._nevers.unschedulable(str(numbers["member"]))
            fits = (name for name in names if self._before[name].fit(parts, self._devices, potential=True) is not None)
            lost = next(fits, None)
            code = Code.NO_MEMBER_FITS if lost is None else Code.LOST_TO_OTHERS
            self._room[key] = Reason(code, numbers if lost is None else numbers | self._taken(lost))
        return self._room[key]

    def _taken(self, member: str) -> dict[str, str | int]:
        """Who gets the room of this member in which a unit would have found place before the plan."""
        takers, withheld = self._takers.get(member, []), self._ground.withheld.get(member)
        if withheld is not None:
            takers = [*takers, withheld[1].head]
        return {"where": member, "taker": _first(takers) if takers else "other jobs"}


def _first(candidates: Sequence[Candidate]) -> str:
    """The name of the first of these in the order of service, and how many there are beside it."""
    others = f" and {len(candidates) - 1} more" if len(candidates) > 1 else ""
    return f"{min(candidates, key=standing).unit.name}{others}"


def quota_reason(refusal: Refusal) -> Reason:
    """What a limit of the tree that refuses looks like to people."""
    if refusal.user:
        code = Code.USER_LIMIT
    elif refusal.firm:
        code = Code.MIN_EXHAUSTED
    else:
        code = Code.MAX_JOBS if refusal.resource == MAX_JOBS else Code.QUOTA_EXHAUSTED
    numbers: dict[str, str | int] = {
        "node": refusal.node, "resource": refusal.resource.removeprefix(FIRM), "request": refusal.request,
        "used": refusal.used - refusal.kept, "max": refusal.max, "short": refusal.short,
    }  # fmt: skip
    if refusal.user:
        numbers["user"] = refusal.user
    return Reason(code, numbers | ({"kept": refusal.kept} if refusal.kept else {}))
