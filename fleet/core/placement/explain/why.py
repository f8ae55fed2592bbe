"""The reasons of a plan: one dominant reason for each unit that waits on, with the numbers that a person needs.

Several causes may hold at once; a person acts on one. The first of these is told: the unit is bad, held or backing off;
its leaf is missing; no member could ever take it; a unit ahead stops its queue; its quota is used up; no member is
ready; no member has room. Quota comes before room: the user's own jobs can free it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.order import queue_order
from fleet.core.model.plan import RoomClaim
from fleet.core.model.reason import Code, Reason, Severity
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate, Group, service_order
from fleet.core.placement.explain.closest import closest, no_node, no_nodes, stock_of
from fleet.core.placement.greedy.greedy import GreedyOutcome
from fleet.core.placement.greedy.situation import Situation
from fleet.core.placement.reservation.span import Span
from fleet.core.quota.limits import limit_of
from fleet.core.quota.usage import Refusal, Usage, request_of
from fleet.core.quota.users import split
from fleet.values.times import instant

_T = TypeVar("_T")
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS, Code.BEHIND_HEAD)


class Explainer:
    """Reasons for the candidates that a finished outcome leaves waiting. Equal ones share one Reason."""

    def __init__(self, situation: Situation, outcome: GreedyOutcome) -> None:
        self._situation = situation
        self._profile = outcome.profile
        self._stopped = outcome.done.stopped
        self._devices = situation.space.devices
        self._started = {candidate.unit.id for candidate, _ in (*situation.first, *outcome.placed)} | situation.new
        self._late = situation.late
        self._takers: dict[str, list[Candidate]] = {}
        claiming = (pair for pair in situation.unstarted_claims if pair[0].unit.id in situation.new)
        for candidate, member in (*outcome.placed, *claiming):
            self._takers.setdefault(member, []).append(candidate)
        self._stock = cache(lambda name: stock_of(situation.snapshot.members[name]))
        self._made: dict[tuple[object, ...], Any] = {}

    def all(self) -> dict[str, Reason]:
        """The reason of each unit that waits on. Units of a group in one tier share a reason. In a stopped queue, each
        reason tells a position."""
        reasons: dict[str, Reason] = {}
        for group in self._situation.groups:
            for tier, start, end in group.segments if group.leaf not in self._stopped else ():
                for first, bound, ids in self._alike(group, tier, start, end):
                    candidate = group.candidate(first)
                    reason = self._behind_head(candidate, bound) if bound else None
                    reason = reason or self.reason_of(candidate)
                    reasons.update(dict.fromkeys(ids, self._in_tier(reason, group.leaf, tier)))
        stopped = (group for group in self._situation.groups if group.leaf in self._stopped)
        for leaf, groups in _by_leaf(stopped).items():
            reasons |= self._in_line(leaf, groups, ())
        for leaf, groups in _by_leaf(self._situation.behind).items():
            claims = [
                candidate.unit for candidate, _ in self._situation.unstarted_claims if candidate.unit.leaf == leaf
            ]
            reasons |= self._in_line(leaf, groups, sorted(claims, key=queue_order))
        for span in self._profile.spans:
            holder = span.holder
            known = reasons.get(holder.unit.id)
            if known is not None and known.code in _OF_ROOM:
                reasons[holder.unit.id] = self._in_tier(self._collects(span), holder.unit.leaf, holder.tier)
        return reasons

    def _once(self, key: tuple[object, ...], make: Callable[[], _T]) -> _T:
        """The result of `make`, made once for each key."""
        if key not in self._made:
            self._made[key] = make()
        made: _T = self._made[key]
        return made

    def _alike(self, group: Group, tier: Tier, start: int, end: int) -> Iterable[tuple[int, int, Sequence[str]]]:
        """The waiting units of a range, by account and by the spans that bind them: the number of one, the spans as
        bits, and the ids."""
        ids, profile = group.ids[start:end], self._profile
        binding = profile.binding(group.units[start], tier)
        if not group.by_user and not (binding and group.timed):
            if not self._started.isdisjoint(ids):
                ids = [key for key in ids if key not in self._started]
            return [(start, profile.standing(binding, group.units[start]), ids)] if ids else []
        found: dict[tuple[str | None, int], tuple[int, int, list[str]]] = {}
        for index, key in enumerate(ids, start):
            if key not in self._started:
                bound = profile.standing(binding, group.units[index])
                found.setdefault((group.account(index), bound), (index, bound, []))[2].append(key)
        return found.values()

    def _behind_head(self, candidate: Candidate, bound: int) -> Reason | None:
        """The reservation of a head that refuses a candidate which would start but for that."""

        def made() -> Reason | None:
            refused = self._profile.refusing(candidate) if candidate.eligibility.choices else None
            return None if refused is None else self._behind_span(*refused)

        return self._once(("head", candidate.account, candidate.shape, candidate.eligibility.number, bound), made)

    def _behind_span(self, span: Span, member: str) -> Reason:
        what = f"room in member {span.member} is" if member else "quota is"
        numbers: dict[str, str | int] = {"head": span.holder.unit.name, "what": what}
        if span.reservation.start > self._situation.now:  # else nothing ends before it any more
            numbers["at"] = instant(span.reservation.start)
        return Reason(Code.BEHIND_HEAD, numbers)

    def _collects(self, span: Span) -> Reason:
        shape, reservation = self._situation.space.shapes[span.holder.shape], span.reservation
        pods = sum(part.replicas for part in shape)
        missing = sum(self._profile.rooms[span.member].missing(shape, self._devices))
        numbers: dict[str, str | int] = {"member": span.member, "have": pods - missing, "pods": pods}
        if reservation.start <= self._situation.now:
            when = "as soon as the room is free" if reservation.certain else "when what was there before has ended"
            return Reason(Code.COLLECTS, {**numbers, "when": when})
        told = instant(reservation.start)
        when = f"about {told}" if reservation.certain else f"not before {told}, when what was there before has ended"
        return Reason(Code.COLLECTS, {**numbers, "when": when, "at": told})

    def _in_line(self, leaf: str, groups: Iterable[Group], claims: Sequence[Unit]) -> dict[str, Reason]:
        """Reasons in a queue that starts strictly in order: all units wait for its first unit, unless they fit no
        member. `claims`: units with claims at the front of the queue, which have reasons of their own."""
        reasons: dict[str, Reason] = {}
        waiting = [
            (queue_order(unit), index, group)
            for group in groups
            for index, unit in enumerate(group.units)
            if unit.id not in self._started
        ]
        first = (claims[0].name, Code.ROOM_CLAIMED.value) if claims else ("", "")
        for position, (_, index, group) in enumerate(sorted(waiting, key=itemgetter(0)), 1 + len(claims)):
            candidate = group.candidate(index)
            if position == 1 or self._never_fits(group) is not None:
                reasons[candidate.unit.id] = self._in_tier(self.reason_of(candidate), leaf, candidate.tier)
            else:
                numbers: dict[str, str | int] = {"position": position, "leaf": leaf, "head": first[0], "why": first[1]}
                reasons[candidate.unit.id] = Reason(Code.BEHIND_IN_QUEUE, numbers)
            if position == 1:
                first = (candidate.unit.name, reasons[candidate.unit.id].code.value)
        return reasons

    def _in_tier(self, reason: Reason, leaf: str | None, tier: Tier) -> Reason:
        """The reason with the tier of the unit, if it has one, and with the units that should have left by now."""
        if leaf is None or reason.severity is Severity.ERROR:
            return reason

        def made() -> tuple[Reason, Reason]:
            leaving = self._still_leaving(reason) if tier <= Tier.SHARE else {}  # room may be freed for these tiers
            return reason, Reason(reason.code, {**reason.numbers, **leaving}, tier)

        return self._once(("tier", id(reason), tier), made)[1]  # the pair keeps the reason, so its id stays its own

    def _still_leaving(self, reason: Reason) -> dict[str, str]:
        """A number for a reason: the late units whose quota or room it is about, if there are any."""
        limit, usage = limit_of(reason), self._profile.usage
        names: list[str] = []
        if limit is not None and not limit.user and usage is not None:
            there = (unit for unit in self._late if unit.leaf is not None and limit.node in usage.path(unit.leaf))
            names = [unit.name for unit in there if request_of(unit)[limit.resource]]
        elif reason.code in _OF_ROOM:
            names = [unit.name for unit in self._late if unit.member == reason.numbers.get("member")]
        return {"leaving": f"{min(names)}{_and_more(names)}"} if names else {}

    def reason_of(self, kind: Candidate) -> Reason:
        """The dominant reason of a candidate that waits for no other unit of its queue."""
        refusal = kind.eligibility.refusal
        if refusal is not None and refusal.code is not Code.MEMBER_NOT_READY:
            return refusal
        return self._never_fits(kind) or self._quota_refuses(kind) or refusal or self._no_room(kind)

    def _quota_refuses(self, kind: Candidate) -> Reason | None:
        account, usage = kind.account, self._profile.usage
        if account is None or usage is None:
            return None
        if not usage.caps_refuse(account, kind.request):  # then it is as for all of the leaf
            account = split(account)[0]
        at = account

        def made() -> Reason | None:
            refusal = usage.refusal(at, kind.request)
            return None if refusal is None else self._reserved_apart(refusal, usage)

        return self._once(("quota", at, id(kind.request)), made)  # the groups keep requests, so an id stays its own

    def _reserved_apart(self, refusal: Refusal, usage: Usage) -> Reason:
        """The reason of a refusal. Quota that claims reserve there is told apart from quota in use: the victims may
        still use it."""
        reason, at = quota_reason(refusal), refusal.limit.account
        if refusal.limit.entry.why:
            return reason
        claims = [
            c for c, _ in self._situation.unstarted_claims if c.account is not None and at in usage.path(c.account)
        ]
        reserved = sum(candidate.request[refusal.charge] for candidate in claims)
        if not reserved:
            return reason
        used = refusal.used - refusal.reserve - reserved
        return Reason(reason.code, {**reason.numbers, "used": used, "reserved": reserved, "preemptor": _first(claims)})

    def _never_fits(self, kind: Candidate | Group) -> Reason | None:
        """Why no member that policy allows would take a gang even if empty; None when a member would."""
        space, members, nevers = self._situation.space, self._situation.snapshot.members, self._situation.nevers

        def made() -> Reason | None:
            if not nevers.of(kind.shape, kind.eligibility):
                return None
            parts, allowed = space.shapes[kind.shape], kind.eligibility.allowed
            stock = [item for name in allowed for item in self._stock(name)]
            found = no_node(parts, stock, sum(members[name].unschedulable for name in allowed), space)
            if found is not None:
                return found
            rooms = nevers.rooms(kind.shape, kind.eligibility)
            return Reason(Code.TOO_LARGE, closest(parts, rooms, space, empty=True))

        return self._once(("never", kind.shape, kind.eligibility.number), made)

    def _no_room(self, kind: Candidate) -> Reason:
        def made() -> Reason:
            space, members = self._situation.space, self._situation.snapshot.members
            parts = space.shapes[kind.shape]
            names = [choice.member for choice in kind.eligibility.choices]
            rooms = [self._profile.rooms[name] for name in names]
            if not any(pool.counts for room in rooms for pool in room.pools):
                return Reason(Code.NO_MEMBER_FITS, no_nodes(members[name] for name in names))
            numbers = closest(parts, rooms, space, empty=False)
            unschedulable = members[str(numbers["member"])].unschedulable
            numbers |= {"unschedulable": unschedulable} if unschedulable else {}
            before = self._situation.rooms
            for name in names:
                if before[name].fit(parts, self._devices, potential=True) is not None:
                    takers = self._takers.get(name, [])
                    taken: dict[str, str | int] = {"where": name, "taker": _first(takers) if takers else "other jobs"}
                    return Reason(Code.LOST_TO_OTHERS, numbers | taken)
            return Reason(Code.NO_MEMBER_FITS, numbers)

        return self._once(("room", kind.shape, kind.eligibility.number), made)


def _by_leaf(groups: Iterable[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.leaf or "", []).append(group)
    return found


def _first(candidates: Sequence[Candidate]) -> str:
    """The name of the first candidate in service order, and the number of the others."""
    return f"{min(candidates, key=service_order).unit.name}{_and_more(candidates)}"


def _and_more(named: Sized) -> str:
    return f" and {len(named) - 1} more" if len(named) > 1 else ""


def quota_reason(refusal: Refusal) -> Reason:
    """The reason of a refusal by a limit of the quota tree."""
    limit, entry = refusal.limit, refusal.limit.entry
    if entry.why:
        return Reason(entry.code, {"why": entry.why.format(node=limit.node)})
    numbers: dict[str, str | int] = {
        "node": limit.node,
        "resource": limit.resource,
        "request": refusal.request,
        "used": refusal.used - refusal.reserve,
        "max": refusal.max,
        "short": refusal.short,
    }
    if limit.user:
        numbers["user"] = limit.user
    if refusal.fleet:
        numbers["fleet"] = refusal.max
    return Reason(entry.code, numbers | ({"kept": refusal.reserve} if refusal.reserve else {}))


def reasons(situation: Situation, outcome: GreedyOutcome, claims: Mapping[str, RoomClaim]) -> dict[str, Reason]:
    """By unit. `claims`: the claims that this plan makes."""
    reasons_by_unit = {**situation.reasons, **Explainer(situation, outcome).all()}
    reasons_by_unit |= {unit: Reason(Code.LOST_TO_OTHERS, {"member": at}) for unit, at in outcome.out.items()}
    for candidate, member in situation.unstarted_claims:
        unit = candidate.unit
        claim = claims.get(unit.id) or unit.claim
        until = instant(claim.until if claim is not None else 0.0)
        reasons_by_unit[unit.id] = Reason(Code.ROOM_CLAIMED, {"member": member, "until": until}, candidate.tier)
    return reasons_by_unit | _costly(situation, reasons_by_unit)


def _costly(situation: Situation, waiting: Mapping[str, Reason]) -> dict[str, Reason]:
    """The reason of each unit that waits and that the next decision leaves out, since the search for its kind of gang
    takes too many steps."""
    shapes, costly = situation.space.shapes, situation.space.effort.costly()
    reasons: dict[str, Reason] = {}
    for group in situation.groups if costly else ():
        steps = costly.get(shapes[group.shape])
        if steps is not None:
            kinds = len(shapes[group.shape])
            reason = Reason(Code.TOO_COSTLY, {"kinds": kinds, "steps": steps, "most": BOUNDS.gang_steps})
            reasons.update(dict.fromkeys([key for key in group.ids if key in waiting], reason))
    return reasons
