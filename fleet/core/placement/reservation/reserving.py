"""Making reservations: for each head the first time at which its member has room, and its quota path has quota.

A reservation counts on the end of a unit of unknown length only where the unit ran before the reservation was made: a
unit that starts beside it must spare it for good.

A head stays in its member, since room that moves would never be complete. A head leaves a member only where the member
cannot take it any more, or where another member has a known time that is no further away than the head has waited
here. Heads are served in order; a head that finds no room beside the reservations before it holds nothing.

A head that the quota of its own leaf keeps waiting needs no room before that quota is there. The room is reserved from
the first time on at which its quota is known to be free. Where no such time is known, the reservation is *lent*.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fleet.core.model.bounds import BOUNDS
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.placement.reservation.heads import HeadChoice, LeafHead
from fleet.core.placement.reservation.releases import CERTAIN, FOREVER, Pairs, Release, Releases
from fleet.core.placement.reservation.span import Span
from fleet.core.quota.usage import Usage

_TURN_S = 60.0  # after which the next ones look


class Reservations:
    """The reservations of one decision. `fits`: whether a member would take a gang if nothing ran there."""

    def __init__(self, releases: Releases, space: Space, fits: Callable[[Candidate, str], bool], now: float) -> None:
        self._releases = releases
        self._space = space
        self._fits = fits
        self._now = now
        self._reclaims = releases.reclaims
        self._quota_times: dict[tuple[str, tuple[str, ...]], float] = {}  # by head, and starts in its leaf

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

    def _quota_at(self, candidate: Candidate, new: Iterable[Release]) -> float:
        """The first time at which the leaf of a candidate is known to have quota for it; FOREVER where none is. Work of
        other leaves uses none of that, and a leaf has one head."""
        leaf = candidate.unit.leaf
        if candidate.account is None:
            return self._now
        beside = [release for release in new if release.unit.leaf == leaf]
        key = (candidate.unit.id, tuple(release.unit.id for release in beside))
        if key not in self._quota_times:
            times = self._times(beside, ())
            lacks = partial(self._leaf_lacks, candidate, beside)
            at = bisect_left(times, True, key=lambda at: not lacks(at)) if lacks(times[0]) else 0
            self._quota_times[key] = times[at] if at < len(times) else FOREVER
        return self._quota_times[key]

    def _leaf_lacks(self, candidate: Candidate, new: Sequence[Release], at: float) -> bool:
        """Whether the leaf of a candidate has no quota for it, once all has ended that is known to end by then."""
        usage = self._usage_at(candidate, at, CERTAIN, new, ())
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
        quota_at = self._quota_at(head.candidate, new)
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
