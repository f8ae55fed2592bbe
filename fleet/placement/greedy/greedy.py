"""The greedy answer: gangs in order, each to the best member that takes it whole. There is always one.

Order is tier, then priority, then time of enqueueing, then name. Room and quota only shrink during a pass, so what
was refused once is not asked again for any gang alike: groups are merged by turn, and one that is refused leaves the
merge, unless somebody else in it may be charged to another user or end before a head starts; then the next of those is
looked for. A pass costs what starts and how many kinds of gangs wait, not how many gangs. Where nobody may start before
one that cannot, it stops its leaf; otherwise the next one is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from fleet.placement.candidates.candidate import Candidate, Group
from fleet.placement.reservation.heads import Head
from fleet.placement.reservation.profile import Profile
from fleet.placement.reservation.span import Span
from fleet.quota.tiers import Tier

Segment = tuple[Group, int, int]  # units of a group, from an index to before another


@dataclass(slots=True)
class Pass:
    """What one pass did: placements in order, and for each stopped leaf the unit that stopped it."""

    placed: list[tuple[Candidate, str]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)


def place(
    profile: Profile,
    groups: Iterable[Group],
    heads: Sequence[Head] = (),
    started: Container[str] = (),
    barred: Container[str] = (),
    spans: Callable[[Sequence[tuple[Candidate, str]]], Sequence[Span]] | None = None,
) -> Pass:
    """Serve all of `groups` but those that `started` already. Changes `profile`. `heads`: they come first in
    their tier and priority. `barred`: units that may not start in this plan; they stop their leaf as if there were no
    room for them. `spans`: finds the reservations anew beside what this pass has placed; asked once a head starts."""
    bands: dict[tuple[Tier, int], list[Segment]] = {}
    for group in groups:
        for tier, start, end in group.segments:
            bands.setdefault((tier, -group.priority), []).append((group, start, end))
    serving = _Serving(profile, started, barred, spans)
    for band in sorted(bands):
        serving.heads(heads, band)
        serving.serve(bands[band], band[0])
    return serving.done


class _Serving:
    """One pass. What is refused stays refused: `no_room` by shape, eligibility and bound, `no_quota` by what is charged
    and the bound."""

    def __init__(
        self, profile: Profile, started: Container[str], barred: Container[str],
        spans: Callable[[Sequence[tuple[Candidate, str]]], Sequence[Span]] | None,
    ) -> None:  # fmt: skip
        self._spans = spans
        self.done = Pass()
        self._profile = profile
        self._started = started
        self._barred = barred
        self._no_room: set[tuple[int, int, int]] = set()
        self._no_quota: set[tuple[str | None, int, bool, int]] = set()
        self._heads: set[str] = set()  # heads that were served already

    def heads(self, heads: Iterable[Head], band: tuple[Tier, int]) -> None:
        """Heads come first in their tier and priority, in their own order."""
        for head in heads:
            candidate = head.candidate
            key = candidate.unit.id
            out = key in self._heads or key in self._started or key in self._barred
            out = out or candidate.unit.leaf in self.done.stopped or (candidate.tier, -candidate.unit.priority) > band
            if not out and self._start(candidate, self._profile.bound(candidate)):
                self._heads.add(key)
                if self._spans is not None:
                    self._profile.reserve(self._spans(self.done.placed))
                    self._no_room = {kind for kind in self._no_room if not kind[2]}
                    self._no_quota = {kind for kind in self._no_quota if not kind[3]}

    def serve(self, segments: Iterable[Segment], tier: Tier) -> None:
        """Segments of one tier and priority, merged by turn."""
        queue: list[tuple[float, str, str, int, int, int, Group]] = []
        for group, start, end in segments:
            if not group.block and group.leaf in self.done.stopped:
                continue
            binding = self._profile.binding(group.units[start], tier)
            at = self._next(group, binding, start, end)
            if at < end:
                unit = group.units[at]
                queue.append((unit.enqueued_at, unit.name, unit.id, at, end, binding, group))
        heapify(queue)
        while queue:
            _, _, key, at, end, binding, group = queue[0]
            if group.leaf in self.done.stopped:
                heappop(queue)
                continue
            if key in self._heads:
                pass
            elif key not in self._barred:
                bound = self._profile.standing(binding, group.units[at])
                starts = not self._refused(group, at, bound) and self._start(group.candidate(at), bound)
                if not starts and (group.block or not self._others(group, binding)):
                    heappop(queue)
                    self._stop(group, key)
                    continue
            else:
                self._stop(group, key)
            at = self._next(group, binding, at + 1, end)
            if at < end:
                unit = group.units[at]
                heapreplace(queue, (unit.enqueued_at, unit.name, unit.id, at, end, binding, group))
            else:
                heappop(queue)

    def _next(self, group: Group, binding: int, at: int, end: int) -> int:
        """The first from `at` on, below `end`, that has not started; where they differ, that may start, as far as is
        known. Else `end`."""
        at = group.next(at, end, self._started)
        if group.block or not _differ(group, binding):
            return at
        while at < end and self._refused(group, at, self._profile.standing(binding, group.units[at])):
            at = group.next(at + 1, end, self._started) if self._others(group, binding) else end
        return at

    def _others(self, group: Group, binding: int) -> bool:
        """Whether one of a group may start though another was refused."""
        shape, preemptible = group.shape, group.preemptible
        return _differ(group, binding) and not (
            (shape, group.eligibility.number, 0) in self._no_room
            or (group.leaf, shape, preemptible, 0) in self._no_quota
        )

    def _refused(self, kind: Group, index: int, bound: int) -> bool:
        """Whether one like it was; what is refused though no head binds it is refused to all."""
        shape, preemptible, account = kind.shape, kind.preemptible, kind.account(index)
        if (shape, kind.eligibility.number, 0) in self._no_room or (account, shape, preemptible, 0) in self._no_quota:
            return True
        if account != kind.leaf and (kind.leaf, shape, preemptible, 0) in self._no_quota:
            return True
        return bound != 0 and (
            (shape, kind.eligibility.number, bound) in self._no_room
            or (account, shape, preemptible, bound) in self._no_quota
        )

    def _start(self, candidate: Candidate, bound: int) -> bool:
        profile = self._profile
        refusal = profile.refusal(candidate)
        if refusal is not None or not profile.spares_quota(candidate, bound):
            of_leaf = refusal is not None and not refusal.user  # what the leaf cannot have, nobody in it can
            who = candidate.unit.leaf if of_leaf else candidate.account
            self._no_quota.add((who, candidate.shape, candidate.unit.preemptible, bound if refusal is None else 0))
            return False
        passing = profile.standing(profile.passing(candidate.unit, candidate.tier), candidate.unit)
        best = profile.best(candidate.shape, candidate.eligibility, bound, passing)
        if best is None:
            self._no_room.add((candidate.shape, candidate.eligibility.number, bound))
            return False
        profile.start(candidate, *best)
        self.done.placed.append((candidate, best[0]))
        return True

    def _stop(self, group: Group, key: str) -> None:
        if group.block and group.leaf is not None:
            self.done.stopped[group.leaf] = key


def _differ(group: Group, binding: int) -> bool:
    """Whether users' caps, or walltimes where heads bind, tell the units of a group apart."""
    return group.by_user or bool(binding and group.timed)
