"""Making reservations: for each head the first time at which its member has room, and its quota path has quota.

A running unit ends at its walltime; without a walltime, its length is unknown. A reservation counts on such an end only
of units that ran before the reservation was made: a unit that starts beside it must spare it for good. Room and usage
after now are added up once for all reservations.

A head stays in its member, since room that moves would never be complete. A head leaves a member only where the member
cannot take it any more, or where another member has a known time that is no further away than the head has waited
here. Heads are served in order; a head that finds no room beside the reservations before it holds nothing.

A head that the quota of its own leaf keeps waiting needs no room before that quota is there. The room is reserved from
the first time on at which its quota is known to be free. Where no such time is known, the reservation is *lent*.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter

from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.leaving import leaves
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.room import MemberRoom, committed
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.placement.reservation.heads import HeadChoice, LeafHead
from fleet.core.placement.reservation.span import NodeTable, Span, SpanNodes
from fleet.core.quota.requests import Requests
from fleet.core.quota.usage import Usage, account_of
from fleet.core.quota.users import split
from fleet.core.snapshot import Snapshot

FOREVER = float("inf")
CERTAIN = -FOREVER  # as `before`: no unit of unknown length is counted as gone
Pairs = Iterable[tuple[Candidate, str]]


@dataclass(frozen=True, slots=True)
class Release:
    """A unit that holds room or quota until it ends. `hidden`: its pods that the inventory does not show yet; `start`
    and `end`: of its run, the end FOREVER where nobody knows."""

    unit: Unit
    member: str
    hidden: Shape
    request: Amounts
    account: str | None
    start: float
    end: float
    tier: Tier = Tier.SHARE  # of a unit that would start now

    def ends_by(self, at: float, before: float) -> bool:
        """Whether the unit has ended by `at`, where units of unknown length that started before `before` have."""
        return self.end <= at if self.end < FOREVER else self.start < before


@dataclass(slots=True)
class _AccountCharges:
    """Amounts charged to one account, by the ends of its work in order, or by the starts where the end is unknown."""

    by_end: list[tuple[float, Amounts]] = field(default_factory=list)
    by_start: list[tuple[float, Amounts]] = field(default_factory=list)
    _sums: tuple[_Sums, _Sums] | None = None

    def released_amounts(self, at: float, before: float) -> tuple[Amounts, Amounts]:
        """The amounts that are released by then, of work of known and of unknown length."""
        if self._sums is None:
            self._sums = (_Sums(self.by_end), _Sums(self.by_start))
        known = bisect_right(self.by_end, at, key=lambda item: item[0])
        unknown = bisect_left(self.by_start, before, key=lambda item: item[0])
        return self._sums[0].of_first(known), self._sums[1].of_first(unknown)


class _Sums:
    """Sums of the first so many amounts; sorts them by their times."""

    def __init__(self, items: list[tuple[float, Amounts]]) -> None:
        items.sort(key=itemgetter(0))
        rows = [dict(amounts.items_) for _, amounts in items]
        names = {name for row in rows for name in row}
        self._by_name = {name: [0, *accumulate([row.get(name, 0) for row in rows])] for name in names}

    def of_first(self, count: int) -> Amounts:
        return Amounts.of({name: sums[count] for name, sums in self._by_name.items()})


class Releases:
    """The ends of all that runs. `usage` has running work and claims charged; None without a tree. `claims`: units for
    which room is kept, with their members: such a unit counts as running from now on."""

    def __init__(
        self,
        snapshot: Snapshot,
        space: Space,
        usage: Usage | None,
        now: float,
        claims: Pairs,
        leaving: Iterable[str] = (),
        users: Iterable[str] = (),
        holding: Sequence[Release] | None = None,
    ) -> None:
        """`leaving`: units that this plan evicts, which end now. `users`: users whose caps matter; work of all others
        is added up by leaf. `holding`: all units that hold room or quota; None: not read yet."""
        self._snapshot = snapshot
        self._space = space
        self._usage = usage
        self._now = now
        self._by_member: dict[str, list[Release]] = {}
        self._charged: dict[str, _AccountCharges] = {}
        self._tables: dict[str, NodeTable] = {}
        self._bare: dict[tuple[str, float, float], SpanNodes] = {}
        self._holding = self._read() if holding is None else holding
        gone = frozenset(leaving)
        held = (replace(release, end=now) if release.unit.id in gone else release for release in self._holding)
        kept = (self.starting(candidate, member) for candidate, member in claims)
        self._add_up(chain(held, kept), frozenset(users))
        ends = {release.end for there in self._by_member.values() for release in there}
        self._ends = sorted(end for end in ends if now < end < FOREVER)

    @property
    def reclaims(self) -> bool:
        """Whether plans may take room back."""
        return self._snapshot.config.reclaim

    @property
    def usage(self) -> Usage | None:
        """The usage now."""
        return self._usage

    def starting(self, candidate: Candidate, member: str) -> Release:
        """A unit that would start now."""
        walltime, now = candidate.unit.walltime_s, self._now
        end = FOREVER if walltime is None else max(now, now + walltime)
        shape = self._space.shapes[candidate.shape]
        return Release(candidate.unit, member, shape, candidate.request, candidate.account, now, end, candidate.tier)

    @property
    def ends(self) -> list[float]:
        """The known times after now at which something ends, in order."""
        return self._ends

    def nodes(self, member: str, at: float, before: float) -> SpanNodes:
        """The nodes of a member at a time, before anything starts; a copy of its own."""
        key = (member, at, before)
        nodes = self._bare.get(key)
        if nodes is None:
            if member not in self._tables:
                self._tables[member] = NodeTable(self._snapshot.members[member], self._space)
            ended = [release.unit for release in self._by_member.get(member, ()) if release.ends_by(at, before)]
            nodes = self._bare[key] = self._tables[member].once_gone(ended)
        return nodes.copy()

    def loose(self, member: str) -> bool:
        """Whether the inventory does not say which pods of a member share a node."""
        return any(release.unit.visible and not release.unit.seats for release in self._by_member.get(member, ()))

    def landing(self, member: str, at: float, before: float) -> list[Release]:
        """The units whose pods no node of the member shows yet, and that have not ended at a time."""
        return [
            release for release in self._by_member.get(member, ()) if release.hidden and not release.ends_by(at, before)
        ]

    def usage_at(self, at: float, before: float) -> Usage | None:
        """The usage at a time, before anything starts; None where there is no tree."""
        if self._usage is None:
            return None
        usage = self._usage.copy()
        for account, charged in self._charged.items():
            for amounts in charged.released_amounts(at, before):
                if amounts.items_:
                    usage.charge(account, amounts, -1)
        return usage

    def beside(self, usage: Usage | None, claims: Pairs, leaving: Iterable[str], users: Iterable[str]) -> Releases:
        """The releases of the same units with other usage, claims, units that leave and users."""
        made = Releases(self._snapshot, self._space, usage, self._now, claims, leaving, users, self._holding)
        made._tables = self._tables
        return made

    def _read(self) -> list[Release]:
        """The units that hold room or quota."""
        backlog, tree = self._snapshot.backlog, self._snapshot.tree
        requests, releases = Requests(), list[Release]()
        for key in sorted(backlog.holding):
            unit = backlog.holding[key]
            hidden = committed(unit, self._space) if key in backlog.unseen else ()
            account = account_of(tree, unit) if tree is not None else None
            start = unit.placed_at if unit.placed_at is not None else (self._now if hidden else CERTAIN)
            releases.append(
                Release(unit, unit.member or "", hidden, requests.of(unit), account, start, self._end(unit))
            )
        return releases

    def _add_up(self, releases: Iterable[Release], users: frozenset[str]) -> None:
        """List the releases by member, and their charges by account."""
        charged_to: dict[str, _AccountCharges] = {}  # by account
        for release in releases:
            self._by_member.setdefault(release.member, []).append(release)
            if release.account is None:
                continue
            charged = charged_to.get(release.account)
            if charged is None:
                leaf, user = split(release.account)
                charged = self._charged.setdefault(release.account if user in users else leaf, _AccountCharges())
                charged_to[release.account] = charged
            if release.end < FOREVER:
                charged.by_end.append((release.end, release.request))
            else:
                charged.by_start.append((release.start, release.request))

    def _end(self, unit: Unit) -> float:
        """When a unit that runs or leaves ends."""
        now = self._now
        if unit.phase is Phase.EVICTING:
            return now if leaves(unit, now, self._snapshot.config.claim_s) else FOREVER
        since = now if unit.placed_at is None else unit.placed_at
        return FOREVER if unit.walltime_s is None else max(now, since + unit.walltime_s)


_TURN_S = 60.0  # after which the next ones look


class Reservations:
    """The reservations of one decision. `fits`: whether a member would take a gang if nothing ran there."""

    def __init__(self, releases: Releases, space: Space, fits: Callable[[Candidate, str], bool], now: float) -> None:
        self._releases = releases
        self._space = space
        self._fits = fits
        self._now = now
        self._reclaims = releases.reclaims

    def beside(self, usage: Usage | None, claims: Pairs, leaving: Iterable[str], users: Iterable[str]) -> Reservations:
        """The reservations beside other usage, claims, units that leave and users."""
        releases = self._releases.beside(usage, claims, leaving, users)
        return Reservations(releases, self._space, self._fits, self._now)

    def assign_members(self, choice: HeadChoice, rooms: Mapping[str, MemberRoom]) -> HeadChoice:
        """The choice with each head in the member of its earliest start, as far as is known before anything starts."""
        heads = choice.heads
        bounds: set[str] = set()
        new_heads: list[LeafHead] = []
        ahead: list[Span] = []
        lines = ([h for h in heads if h.member is None], [h for h in heads if h.member is not None])
        for head in heads:
            line = lines[head.member is not None]
            turn = line.index(head) + int(self._now // _TURN_S)
            looks = turn % max(len(line), BOUNDS.head_looks) < BOUNDS.head_looks
            if not looks:
                bounds.add("head_looks")
            span = self._in(head, head.member, (), ahead) if head.member is not None else None
            if looks and (span is None or not span.reservation.certain):
                near = self._nearest(head, rooms)
                if len(near) > BOUNDS.head_members:
                    bounds.add("head_members")
                other = self._elsewhere(head, ahead, near[: BOUNDS.head_members], span is not None)
                if other is not None:
                    head, span = replace(head, member=other.member, since=self._now), other
            new_heads.append(head)
            ahead += [span] if span is not None else []
        return replace(choice, heads=tuple(new_heads), bounds=choice.bounds | bounds)

    def spans(self, heads: Iterable[LeafHead], starts: Pairs) -> tuple[Span, ...]:
        """The reservations of the heads that do not start, beside all of `starts`."""
        new = [self._releases.starting(candidate, member) for candidate, member in starts]
        new.sort(key=lambda release: (self._sizes(release), release.unit.id), reverse=True)
        started = {release.unit.id for release in new}
        found: list[Span] = []
        for head in heads:
            if head.candidate.unit.id not in started and head.member is not None:
                span = self._in(head, head.member, new, found)
                found += [span] if span is not None else []
        return tuple(found)

    def _quota_at(self, candidate: Candidate, new: Sequence[Release], ahead: Sequence[Span]) -> float:
        """The first time at which the leaf of a candidate is known to have quota for it; FOREVER where none is."""
        times = self._times(new, ahead)
        lacks = partial(self._leaf_lacks, candidate, new, ahead)
        if not lacks(times[0]):
            return times[0]
        at = bisect_left(times, True, key=lambda at: not lacks(at))
        return times[at] if at < len(times) else FOREVER

    def _leaf_lacks(self, candidate: Candidate, new: Sequence[Release], ahead: Sequence[Span], at: float) -> bool:
        """Whether the leaf of a candidate has no quota for it, once all has ended that is known to end by then."""
        usage = self._usage_at(candidate, at, CERTAIN, new, ahead)
        refusal = usage.refusal(candidate.account or "", candidate.request) if usage is not None else None
        return refusal is not None and refusal.node == candidate.unit.leaf

    def _usage_at(
        self, candidate: Candidate, at: float, before: float, new: Sequence[Release], ahead: Sequence[Span]
    ) -> Usage | None:
        """The usage at a time, beside all that starts and is reserved; None where nothing limits a candidate."""
        usage = self._releases.usage_at(at, before) if candidate.account is not None else None
        if usage is not None:
            charged = [(release.account, release.request) for release in new if release.end > at]
            charged += [(span.holder.account, span.holder.request) for span in ahead if _end(span) > at]
            for account, request in charged:
                if account is not None:
                    usage.charge(account, request)
        return usage

    def _in(self, head: LeafHead, member: str, new: Sequence[Release], ahead: Sequence[Span]) -> Span | None:
        """The first time that fits in a member: by known ends; else once those of unknown length have ended, too, that
        ran before the reservation was made; else, made anew, once all of them have, and all units that start in this
        plan by right though the reservation refuses them."""
        quota_at = self._quota_at(head.candidate, new, ahead)
        if quota_at == FOREVER:
            head, quota_at = replace(head, lends=self._reclaims), self._now
        for before, since in ((CERTAIN, head.since), (head.since, head.since), (FOREVER, self._now)):
            if before == FOREVER:
                anew = head.reservation(member, self._now, since)
                new = [release for release in new if release.end < FOREVER or anew.binds(release.unit, release.tier)]
            times = [at for at in self._times(new, ahead) if at >= quota_at]
            best = self._at(head, member, times[-1], before, since, new, ahead)
            low, high = 0, len(times) - 1
            while best is not None and low < high:  # an end only adds room and quota
                middle = (low + high) // 2
                span = self._at(head, member, times[middle], before, since, new, ahead)
                low, high, best = (middle + 1, high, best) if span is None else (low, middle, span)
            if best is not None:
                return best
        return None

    def _times(self, new: Sequence[Release], ahead: Sequence[Span]) -> list[float]:
        """Now, and the known ends of units."""
        ends = {release.end for release in new} | {_end(span) for span in ahead}
        more = [end for end in ends if self._now < end < FOREVER]
        return [self._now, *(sorted([*self._releases.ends, *more]) if more else self._releases.ends)]

    def _at(
        self,
        head: LeafHead,
        member: str,
        at: float,
        before: float,
        since: float,
        new: Sequence[Release],
        ahead: Sequence[Span],
    ) -> Span | None:
        """The reservation at a time; None without room or quota for it then."""
        shape, candidate, releases = self._space.shapes[head.candidate.shape], head.candidate, self._releases
        stay = [release for release in new if release.end > at]
        spans = [span for span in ahead if _end(span) > at]
        usage = self._usage_at(candidate, at, before, new, ahead)
        if usage is not None and candidate.account is not None:
            if usage.refusal(candidate.account, candidate.request) is not None:
                return None
            usage.charge(candidate.account, candidate.request)
        nodes = releases.nodes(member, at, before)
        landing = [*releases.landing(member, at, before), *(release for release in stay if release.member == member)]
        for release in sorted(landing, key=lambda release: (self._sizes(release), release.unit.id), reverse=True):
            nodes.crowd(release.hidden, shape)
        for span in spans:
            if span.member == member and not nodes.give(self._space.shapes[span.holder.shape]):
                return None
        made = head.reservation(member, at, since, certain=before == CERTAIN)
        span = Span(made, nodes, usage, self._space.shapes, self._now)
        if not nodes.takes(shape):
            if before < FOREVER or not releases.loose(member) or not self._fits(candidate, member):
                return None
            span.close()  # no node is known to be free together with another, so the whole member is kept
        return span

    def _nearest(self, head: LeafHead, rooms: Mapping[str, MemberRoom]) -> list[tuple[int, int, str]]:
        """The other members that would take a head if nothing ran there, those first that lack least: the pods without
        a place, the number of the choice, the member."""
        candidate, space = head.candidate, self._space
        shape = space.shapes[candidate.shape]
        return sorted(
            (sum(rooms[choice.member].missing(shape, space.devices)), number, choice.member)
            for number, choice in enumerate(candidate.eligibility.choices)
            if choice.member != head.member and self._fits(candidate, choice.member)
        )

    def _elsewhere(
        self, head: LeafHead, ahead: Sequence[Span], near: Iterable[tuple[int, int, str]], has: bool
    ) -> Span | None:
        """The reservation in the member of `near` where the head starts earliest. A head that `has` one leaves it only
        for a known time no further away than the head has waited."""
        now = self._now
        best: tuple[tuple[bool, float, int, int], Span] | None = None
        for missing, number, member in near:
            span = self._in(replace(head, since=now), member, (), ahead)
            if span is None:
                continue
            certain, start = span.reservation.certain, span.reservation.start
            if has and (not certain or start - now > now - head.since):
                continue
            rank = (not certain, start if certain else 0.0, missing, number)
            if best is None or rank < best[0]:
                best = (rank, span)
        return None if best is None else best[1]

    def _sizes(self, release: Release) -> tuple[tuple[int, ...], ...]:
        return tuple(self._space.size(part.need) for part in release.hidden)


def _end(span: Span) -> float:
    """When a reserved unit will have ended, as far as is known."""
    walltime, made = span.holder.unit.walltime_s, span.reservation
    return FOREVER if walltime is None or not made.certain else made.start + walltime
