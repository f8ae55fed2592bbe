"""Why a unit waits: its one dominant reason (I9), with the numbers that a person needs.

Dominance, first that holds: the unit itself is bad, held or backing off; it has no queue; no member could ever take
it; its queue is stopped by one ahead; its quota is used up; no member is ready; no member has room. Quota stands before
room because it is what the queue asks first, and because it is what the user's own jobs can free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from operator import itemgetter

from fleet.model.order import queue_order
from fleet.model.reason import Code, Reason, Severity, instant
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.explain.closest import closest
from fleet.placement.explain.never import Never
from fleet.placement.greedy.greedy import Pass
from fleet.placement.greedy.settle import Outcome
from fleet.placement.greedy.situation import Situation
from fleet.placement.reservation.span import Span
from fleet.quota.tiers import Tier
from fleet.quota.tree import MAX_JOBS
from fleet.quota.usage import FIRM, Refusal, Usage, request_of
from fleet.quota.users import account, split

_MOST_REPLICAS = 1_000_000
_MOST_AMOUNT = 1 << 62
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS, Code.BEHIND_HEAD)
_OF_QUOTA = (Code.QUOTA_EXHAUSTED, Code.MIN_EXHAUSTED, Code.MAX_JOBS)


class Explainer:
    """Reasons for the candidates that a finished outcome left waiting. Equal ones share one Reason."""

    def __init__(self, situation: Situation, outcome: Outcome) -> None:
        self._before = situation.rooms
        self._profile = outcome.profile
        self._space = situation.space
        self._devices = situation.space.devices
        self._now = situation.now
        self._late = situation.late
        self._kept = situation.kept
        self._takers: dict[str, list[Candidate]] = {}
        for candidate, member in outcome.placed:
            self._takers.setdefault(member, []).append(candidate)
        for candidate, member in situation.kept:
            if candidate.unit.id in situation.new:
                self._takers.setdefault(member, []).append(candidate)
        self._nevers = Never(situation.snapshot.members, situation.nevers, situation.space)
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
        for span in self._profile.spans:
            holder = span.holder
            known = reasons.get(holder.unit.id)
            if known is not None and known.code in _OF_ROOM:
                reasons[holder.unit.id] = self._in_tier(self._collects(span), holder.unit.leaf, holder.tier)
        return reasons

    def _alike(
        self, group: Group, tier: Tier, start: int, end: int, started: Set[str]
    ) -> Iterable[tuple[int, int, Sequence[str]]]:
        """Those of a range that wait, by where they are charged and which heads bind them: the index of one, the heads
        as bits, and ids."""
        ids, profile = group.ids[start:end], self._profile
        binding = profile.binding(group.units[start], tier)
        if not group.by_user and not binding:
            if not started.isdisjoint(ids):
                ids = [key for key in ids if key not in started]
            return [(start, 0, ids)] if ids else []
        found: dict[tuple[str | None, int], tuple[int, int, list[str]]] = {}
        for index, key in enumerate(ids, start):
            if key not in started:
                bound = profile.standing(binding, group.units[index])
                found.setdefault((group.account(index), bound), (index, bound, []))[2].append(key)
        return found.values()

    def _behind_head(self, candidate: Candidate, bound: int) -> Reason | None:
        """Which reservation of a head refuses it, if it would start but for that."""
        key = (candidate.account, candidate.shape, candidate.eligibility.number, bound)
        if key not in self._behind:
            refused = self._profile.refusing(candidate) if candidate.eligibility.choices else None
            self._behind[key] = None if refused is None else self._behind_span(*refused)
        return self._behind[key]

    def _behind_span(self, span: Span, member: str) -> Reason:
        what = f"room in member {span.member} is" if member else "quota is"
        numbers: dict[str, str | int] = {"head": span.holder.unit.name, "what": what}
        if span.reservation.start > self._now:  # else nothing ends before it any more
            numbers["at"] = instant(span.reservation.start)
        return Reason(Code.BEHIND_HEAD, numbers)

    def _collects(self, span: Span) -> Reason:
        shape, made = self._space.shapes[span.holder.shape], span.reservation
        pods = sum(part.replicas for part in shape)
        missing = sum(self._profile.rooms[span.member].missing(shape, self._devices))
        numbers: dict[str, str | int] = {"member": span.member, "have": pods - missing, "pods": pods}
        if made.start <= self._now:
            when = "as soon as the room is free" if made.certain else "when what was there before has ended"
            return Reason(Code.COLLECTS, {**numbers, "when": when})
        told = instant(made.start)
        when = f"about {told}" if made.certain else f"not before {told}, when what was there before has ended"
        return Reason(Code.COLLECTS, {**numbers, "when": when, "at": told})

    def _in_line(self, leaf: str, groups: Sequence[Group], started: Set[str], reasons: dict[str, Reason]) -> None:
        """Reasons in a queue that starts nobody before its head: all but the head wait for it."""
        line = [
            (queue_order(unit), index, group)
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
            ahead = sorted((c.unit for c in kept if c.unit.leaf == leaf), key=queue_order)
            line.sort(key=lambda item: queue_order(item[0]))
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
            if self._late and tier <= Tier.SHARE:  # who may have been told that room is freed for it
                tiered = self._still_leaving(tiered)
            known = self._tiered[key] = (reason, tiered)
        return known[1]

    def _still_leaving(self, reason: Reason) -> Reason:
        """The reason, and who of those that it is about should have left by now."""
        node, usage, resource = reason.numbers.get("node"), self._profile.usage, str(reason.numbers.get("resource"))
        held: list[Unit] = []
        if reason.code in _OF_QUOTA and usage is not None:
            there = (unit for unit in self._late if unit.leaf is not None and node in usage.path(unit.leaf))
            held = [unit for unit in there if request_of(unit)[resource]]
        elif reason.code in _OF_ROOM:
            held = [unit for unit in self._late if unit.member == reason.numbers.get("member")]
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
        account, usage = kind.account, self._profile.usage
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
            rooms = [self._profile.rooms[name] for name in names]
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
        """Whose room it is now in which a unit would have found place before the plan."""
        takers = self._takers.get(member, [])
        return {"where": member, "taker": _first(takers) if takers else "other jobs"}


def _first(candidates: Sequence[Candidate]) -> str:
    """The name of the first of these in the order of service, and how many there are beside it."""
    others = f" and {len(candidates) - 1} more" if len(candidates) > 1 else ""
    return f"{min(candidates, key=service_order).unit.name}{others}"


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
    if refusal.fleet:
        numbers["fleet"] = refusal.max
    return Reason(code, numbers | ({"kept": refusal.kept} if refusal.kept else {}))
