"""Making reservations: for each head the first time at which its member has room, and its quota path has quota.

A head stays in its member, since room that moves would never be complete. It leaves it only where the member cannot
take it any more, or where another member has a known time that is no further away than the head has waited here.
Heads are served in order; a head that finds no room beside the reservations before it holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Space
from fleet.placement.reservation.heads import Head
from fleet.placement.reservation.releases import CERTAIN, FOREVER, Releases, Work
from fleet.placement.reservation.reservation import Kind, Reservation
from fleet.placement.reservation.span import Span

_MOST_LOOKS = 4  # heads that look for a member in one decision; and of those that have one, for a better one
_MOST_MEMBERS = 8  # that one of them looks at closely
_TURN_S = 60.0  # after which the next ones look
Pairs = Iterable[tuple[Candidate, str]]


class Reserving:
    """The reservations of one decision. `fits`: whether a member would take a gang if nothing ran there."""

    def __init__(self, releases: Releases, space: Space, fits: Callable[[Candidate, str], bool], now: float) -> None:
        self._releases = releases
        self._space = space
        self._fits = fits
        self._now = now

    def settled(self, heads: Sequence[Head], rooms: Mapping[str, MemberRoom]) -> tuple[Head, ...]:
        """The heads, each in the member where it starts earliest as far as is known before anything starts."""
        found: list[Head] = []
        ahead: list[Span] = []
        lines = ([h for h in heads if h.member is None], [h for h in heads if h.member is not None])
        for head in heads:
            line = lines[head.member is not None]
            looks = (line.index(head) + int(self._now // _TURN_S)) % max(len(line), _MOST_LOOKS) < _MOST_LOOKS
            span = self._in(head, head.member, (), ahead) if head.member is not None else None
            if looks and (span is None or not span.reservation.certain):
                other = self._elsewhere(head, ahead, rooms, span is not None)
                if other is not None:
                    head, span = replace(head, member=other.member, since=self._now), other
            found.append(head)
            ahead += [span] if span is not None else []
        return tuple(found)

    def spans(self, heads: Iterable[Head], starts: Pairs) -> tuple[Span, ...]:
        """The reservations of the heads that do not start, beside all of `starts`."""
        new = [self._releases.starting(candidate, member) for candidate, member in starts]
        new.sort(key=lambda work: (self._sizes(work), work.unit.id), reverse=True)
        started = {work.unit.id for work in new}
        found: list[Span] = []
        for head in heads:
            if head.candidate.unit.id not in started and head.member is not None:
                span = self._in(head, head.member, new, found)
                found += [span] if span is not None else []
        return tuple(found)

    def _in(self, head: Head, member: str, new: Sequence[Work], ahead: Sequence[Span]) -> Span | None:
        """The first time that fits in a member: by known ends; else once those of unknown length have ended, too, that
        ran before the reservation was made; else, made anew, once all of them have, and all units that start in this
        plan by right though the reservation refuses them."""
        for before, since in ((CERTAIN, head.since), (head.since, head.since), (FOREVER, self._now)):
            if before == FOREVER:
                anew = Reservation(Kind.HEAD, head.candidate, member, self._now, since, overdue=head.overdue)
                new = [work for work in new if work.end < FOREVER or anew.binds(work.unit, work.tier)]
            times = self._times(new, ahead)
            best = self._at(head, member, times[-1], before, since, new, ahead)
            low, high = 0, len(times) - 1
            while best is not None and low < high:  # what ends only adds room and quota
                middle = (low + high) // 2
                span = self._at(head, member, times[middle], before, since, new, ahead)
                low, high, best = (middle + 1, high, best) if span is None else (low, middle, span)
            if best is not None:
                return best
        return None

    def _times(self, new: Sequence[Work], ahead: Sequence[Span]) -> list[float]:
        """Now, and when anything ends that is known."""
        ends = {work.end for work in new} | {_end(span) for span in ahead}
        more = [end for end in ends if self._now < end < FOREVER]
        return [self._now, *(sorted([*self._releases.ends, *more]) if more else self._releases.ends)]

    def _at(
        self, head: Head, member: str, at: float, before: float, since: float, new: Sequence[Work],
        ahead: Sequence[Span],
    ) -> Span | None:  # fmt: skip
        """The reservation at a time; None where it has no room or quota then."""
        mine, candidate, releases = self._space.shapes[head.candidate.shape], head.candidate, self._releases
        stay = [work for work in new if work.end > at]
        spans = [span for span in ahead if _end(span) > at]
        usage = releases.usage_at(at, before) if candidate.account is not None else None
        if usage is not None and candidate.account is not None:
            charged = [(work.account, work.request) for work in stay]
            charged += [(span.holder.account, span.holder.request) for span in spans]
            for account, request in charged:
                if account is not None:
                    usage.charge(account, request)
            if usage.refusal(candidate.account, candidate.request) is not None:
                return None
            usage.charge(candidate.account, candidate.request)
        nodes = releases.nodes(member, at, before)
        landing = [*releases.landing(member, at, before), *(work for work in stay if work.member == member)]
        for work in sorted(landing, key=lambda work: (self._sizes(work), work.unit.id), reverse=True):
            nodes.crowd(work.hidden, mine)
        for span in spans:
            if span.member == member and not nodes.give(self._space.shapes[span.holder.shape]):
                return None
        made = Reservation(Kind.HEAD, candidate, member, at, since, before == CERTAIN, head.overdue)
        span = Span(made, nodes, usage, self._space.shapes, self._now)
        if not nodes.takes(mine):
            if before < FOREVER or not releases.loose(member) or not self._fits(candidate, member):
                return None
            span.close()  # no node is known to be free together with another, so the whole member is kept
        return span

    def _elsewhere(self, head: Head, ahead: Sequence[Span], rooms: Mapping[str, MemberRoom], has: bool) -> Span | None:
        """The reservation in the member where the head starts earliest. A head that `has` one leaves it only for a
        known time that is no further away than it has waited."""
        candidate, now = head.candidate, self._now
        shape = self._space.shapes[candidate.shape]
        near = sorted(
            (sum(rooms[choice.member].missing(shape, self._space.devices)), number, choice.member)
            for number, choice in enumerate(candidate.eligibility.choices)
            if choice.member != head.member and self._fits(candidate, choice.member)
        )
        best: tuple[tuple[bool, float, int, int], Span] | None = None
        for missing, number, member in near[:_MOST_MEMBERS]:
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

    def _sizes(self, work: Work) -> tuple[tuple[int, ...], ...]:
        return tuple(self._space.size(part.need) for part in work.hidden)


def _end(span: Span) -> float:
    """When a reserved unit will have ended, as far as is known."""
    walltime, made = span.holder.unit.walltime_s, span.reservation
    return FOREVER if walltime is None or not made.certain else made.start + walltime
