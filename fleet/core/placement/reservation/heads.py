"""Heads: the units that have waited past the bound, one of each leaf.

A head is the first unit of its leaf in queue order that would start if nothing ran, and that its leaf may count on:
within its guarantee or share, or crossing it, beside the units of the leaf that are before it in queue order. Units
outside quota have one head between them. A head stays a head until its start, or until the first unit of its leaf has
waited past the bound as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from fleet.core.model import plan
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Nomination, Unit
from fleet.core.placement.candidates.candidate import Candidate, Group, without
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.placement.reservation.span import Reservation, Span, SpanKind
from fleet.core.quota.entitlement import Entitlement
from fleet.core.quota.requests import Requests
from fleet.core.quota.tiers import add
from fleet.core.quota.usage import Usage
from fleet.core.snapshot import Config, Snapshot


@dataclass(frozen=True, slots=True)
class LeafHead:
    """`became`: since when the unit is a head; `member`: where room is reserved for it, `since` when, epoch seconds.
    `plain`: its tier beside all of its leaf, which says what it may evict; the tier of the candidate counts only
    what is before it in queue order. `overdue`: guaranteed units of other leaves wait for it, too. `lends`: no time is
    known at which its leaf has quota for it."""

    candidate: Candidate
    became: float
    since: float
    member: str | None = None
    plain: Tier = Tier.SHARE
    overdue: bool = False
    lends: bool = False

    @property
    def crossing(self) -> bool:
        """Whether the unit carries its leaf past its share."""
        return self.plain > Tier.SHARE

    def reservation(self, member: str, start: float, since: float, *, certain: bool = False) -> Reservation:
        """Room for it in a member from `start` on."""
        return Reservation(
            SpanKind.HEAD, self.candidate, member, start, since, certain, overdue=self.overdue, lent=self.lends
        )

    def nomination(self, span: Span | None, now: float) -> Nomination:
        """The nomination that is remembered until the next decision. A start in the past stays as told before."""
        if span is None:
            return Nomination("", self.became, self.became)
        made = span.reservation
        turn = self.became if self.became < made.since else None
        said = self.candidate.unit.head
        same = said is not None and (said.member, said.since, said.certain) == (made.member, made.since, made.certain)
        start = said.at if said is not None and same and max(said.at, made.start) <= now else made.start
        return Nomination(made.member, made.since, start, made.certain, turn)


@dataclass(frozen=True, slots=True)
class HeadChoice:
    """The heads in the order in which reservations are made, and `later` heads that keep their turn (unit, since when).
    `bounds`: those that ended the choice, and the look for members."""

    heads: tuple[LeafHead, ...]
    later: tuple[tuple[str, float], ...] = ()
    bounds: frozenset[str] = frozenset()

    def without(self, units: set[str]) -> HeadChoice:
        """The same less some heads."""
        heads = tuple(head for head in self.heads if head.candidate.unit.id not in units)
        return replace(self, heads=heads, later=tuple(one for one in self.later if one[0] not in units))

    def plan_heads(self, spans: Iterable[Span], started: set[str], now: float) -> tuple[plan.Head, ...]:
        """The heads of the plan: all that do not start."""
        found = {span.holder.unit.id: span for span in spans}
        told = (
            (key, head.nomination(found.get(key), now)) for key, head in ((h.candidate.unit.id, h) for h in self.heads)
        )
        later = ((key, Nomination("", since, since)) for key, since in self.later)
        return tuple(plan.Head(key, said) for key, said in (*told, *later) if key not in started)


class HeadChooser:
    """The choice of the heads of one decision."""

    def __init__(
        self, snapshot: Snapshot, space: Space, groups: Sequence[Group], entitled: Entitlement | None, now: float
    ) -> None:
        """`groups`: of all units that may start; `entitled`: None without a tree."""
        self._snapshot = snapshot
        self._space = space
        self._groups = groups
        self._entitled = entitled
        self._now = now
        tree = snapshot.tree
        self._nothing = Usage(tree, entitled.promises) if tree is not None and entitled is not None else None
        self._empty: dict[str, MemberRoom | None] = {}
        self._fitting: dict[tuple[int, int], bool] = {}
        self._running: Mapping[str, list[Unit]] | None = None
        self._requests = Requests()

    def choose(self) -> tuple[HeadChoice, list[Group]]:
        """The heads, and the groups with each of them in a group of its own. No unit is a head where the configuration
        sets no bound."""
        if self._snapshot.config.head_after_s <= 0:
            return HeadChoice(()), list(self._groups)
        leaves: dict[str | None, list[Group]] = {}
        for group in self._groups:
            leaves.setdefault(group.leaf, []).append(group)
        in_turn = [head for line in leaves.values() if (head := self._of_leaf(line)) is not None]
        if not in_turn:
            return HeadChoice(()), list(self._groups)
        in_turn.sort(key=_turn)
        bounds = frozenset[str]()
        if len(in_turn) > BOUNDS.heads:
            bounds = frozenset({"heads" if len(in_turn) <= BOUNDS.heads_remembered else "heads_remembered"})
        heads, later = in_turn[: BOUNDS.heads], in_turn[BOUNDS.heads : BOUNDS.heads_remembered]
        groups = without({head.candidate.unit.id for head in heads}, self._groups)
        groups += [Group.alone(head.candidate) for head in heads]
        groups.sort(key=lambda group: queue_order(group.units[0]))
        keep_turn = tuple((head.candidate.unit.id, head.became) for head in later)
        return HeadChoice(tuple(heads), keep_turn, bounds), groups

    def would_fit(self, kind: Candidate | Group, member: str) -> bool:
        """Whether an empty member takes a gang, as far as the inventory says."""
        if member not in self._empty:
            self._empty[member] = MemberRoom.emptied(self._snapshot.members[member], self._space)
        empty = self._empty[member]
        return empty is None or empty.fit(self._space.shapes[kind.shape], self._space.devices) is not None

    def _of_leaf(self, line: Sequence[Group]) -> LeafHead | None:
        late = [group for group in line if self._is_late(group.units[0]) or group.units[0].head is not None]
        if not late:
            return None
        able = [first for group in line for first in group.firsts if self._may_ever_start(first)]
        stop = min((queue_order(group.units[0]) for group in line if group.block), default=None)
        able = [first for first in able if stop is None or queue_order(first.unit) <= stop]
        first = min(able, key=lambda candidate: queue_order(candidate.unit), default=None)
        known = [(c.unit.head.became, c.unit.id, c) for c in able if c.unit.head is not None]
        firsts = [first] if first is not None and self._is_late(first.unit) else []
        for candidate in (*firsts, *(one for _, _, one in sorted(known, key=itemgetter(0, 1)))):
            tier = self._tier(candidate, line)
            if tier <= Tier.CROSSING or candidate.unit.head is not None:
                return self._head(candidate, tier)
        return None

    def _is_late(self, unit: Unit) -> bool:
        return self._now - unit.enqueued_at >= self._snapshot.config.head_after_s

    def _head(self, candidate: Candidate, tier: Tier) -> LeafHead:
        head, now = candidate.unit.head, self._now
        ranked = replace(candidate, tier=min(tier, Tier.SHARE))
        became = now if head is None else min(now, head.became)
        stays = head is not None and any(c.member == head.member for c in candidate.eligibility.choices)
        overdue = is_overdue(candidate.unit, self._snapshot.config, now)
        plain = candidate.tier
        if head is None or not stays:
            return LeafHead(ranked, became, now, None, plain, overdue)
        return LeafHead(ranked, became, min(now, head.since), head.member, plain, overdue)

    def _may_ever_start(self, kind: Candidate) -> bool:
        """Whether the unit would start if nothing ran, as far as quota and the inventory say."""
        nothing, account = self._nothing, kind.account
        if account is not None and nothing is not None and nothing.refusal(account, kind.request) is not None:
            return False
        key = (kind.shape, kind.eligibility.number)
        fits = self._fitting.get(key)
        if fits is None:
            fits = any(self.would_fit(kind, choice.member) for choice in kind.eligibility.choices)
            self._fitting[key] = fits
        return fits

    def _tier(self, candidate: Candidate, line: Sequence[Group]) -> Tier:
        """The tier of a unit beside the units of its leaf before it in queue order, running or waiting; never below its
        tier beside all."""
        leaf, entitled = candidate.unit.leaf, self._entitled
        if leaf is None or entitled is None or candidate.tier is Tier.GUARANTEED:
            return candidate.tier
        used: dict[str, int] = {}
        turn = queue_order(candidate.unit)
        for unit in self._runs(leaf):
            if queue_order(unit) < turn:
                add(used, self._requests.of(unit))
        for group in line:
            before = bisect_left(group.units, turn, key=queue_order) if group.priority >= candidate.unit.priority else 0
            if before and self._may_ever_start(group.candidate(0)):
                add(used, group.request, before)
        return min(candidate.tier, entitled.tier(leaf, candidate.request, used))

    def _runs(self, leaf: str) -> Sequence[Unit]:
        if self._running is None:
            found: dict[str, list[Unit]] = {}
            for unit in self._snapshot.backlog.holding.values():
                if unit.leaf is not None:
                    found.setdefault(unit.leaf, []).append(unit)
            self._running = found
        return self._running.get(leaf, ())


def _turn(head: LeafHead) -> tuple[object, ...]:
    """Heads in order: the longest head first, of those that become one now guaranteed ones, then the longest wait."""
    unit = head.candidate.unit
    return (unit.head is None, head.became, head.candidate.tier, *queue_order(unit)[1:])


def is_overdue(unit: Unit, config: Config, now: float) -> bool:
    """Whether guaranteed units of other leaves wait for a head: once it has waited twice the bound, for the guarantee
    delay, and again each time that such units have passed it for one bound."""
    bound, delay = config.head_after_s, config.delay_s
    since = now - unit.enqueued_at - 2 * bound
    return since >= 0 and delay > 0 and since % (delay + bound) < delay


def overdue_change(unit: Unit, config: Config, now: float) -> float | None:
    """The first epoch second after `now` at which `is_overdue` answers otherwise; None where it never does."""
    bound, delay = config.head_after_s, config.delay_s
    if bound <= 0 or delay <= 0:
        return None
    first = unit.enqueued_at + 2 * bound
    if now < first:
        return first
    begun = now - (now - first) % (delay + bound)
    return begun + (delay if now - begun < delay else delay + bound)


def nominated(units: Mapping[str, Unit], made: plan.Plan) -> tuple[Unit, ...]:
    """The units of a snapshot whose nomination is another once the plan is carried out."""
    said = {head.unit: head.nomination for head in made.heads}
    heads = [key for key, unit in units.items() if unit.head is not None]
    return tuple(
        replace(units[key], head=said.get(key))
        for key in sorted({*heads, *said})
        if key in units and units[key].head != said.get(key)
    )
