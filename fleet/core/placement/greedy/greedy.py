"""The greedy answer: gangs in order, each to the best member that takes it whole; filling up; the worth of an outcome.

Service order is tier, then priority, then time of enqueueing, then name. Room and quota only shrink during a pass, so
what was refused once is not asked again for any gang alike: groups are merged by turn, and a refused group leaves the
merge, unless another unit in it may be charged to another user or end before a head starts; then the next of those is
looked for. A pass costs what starts and how many kinds of gangs wait, not how many gangs. Where no unit may start
before one that cannot, that unit stops its leaf; otherwise the next unit is tried.

Gangs are packed one after another, and laid out again by the next cycle as a whole. A plan counts only once it is
complete in that layout. So passes repeat in it until nothing more starts: planning again then changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate, Group, service_order
from fleet.core.placement.greedy.situation import Pairs, Situation
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.placement.reservation.heads import LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.placement.reservation.span import Span

Segment = tuple[Group, int, int]  # units of a group, from an index to before another


@dataclass(slots=True)
class Pass:
    """The result of one pass: placements in order, and for each stopped leaf the unit that stopped it."""

    placed: list[tuple[Candidate, str]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)


def place(
    profile: Profile,
    groups: Iterable[Group],
    heads: Sequence[LeafHead] = (),
    started: Container[str] = (),
    barred: Container[str] = (),
    spans: Callable[[Sequence[tuple[Candidate, str]]], Sequence[Span]] | None = None,
) -> Pass:
    """Serve all units of `groups` that have not `started`. Changes `profile`. `heads` come first in their tier and
    priority. `barred`: units that may not start in this plan, and stop their leaf as if there were no room for them.
    `spans`: finds the reservations anew beside the placements of this pass; asked once a head starts."""
    bands: dict[tuple[Tier, int], list[Segment]] = {}
    for group in groups:
        for tier, start, end in group.segments:
            bands.setdefault((tier, -group.priority), []).append((group, start, end))
    serving = _GreedyPass(profile, started, barred, spans)
    for band in sorted(bands):
        serving.heads(heads, band)
        serving.serve(bands[band], band[0])
    return serving.done


class _GreedyPass:
    """One pass. Refusals stand: `no_room` by shape, eligibility and bound, `no_quota` by account, shape and
    bound."""

    def __init__(
        self,
        profile: Profile,
        started: Container[str],
        barred: Container[str],
        spans: Callable[[Sequence[tuple[Candidate, str]]], Sequence[Span]] | None,
    ) -> None:
        self._spans = spans
        self.done = Pass()
        self._profile = profile
        self._started = started
        self._barred = barred
        self._no_room: set[tuple[int, int, int]] = set()
        self._no_quota: set[tuple[str | None, int, bool, int]] = set()
        self._heads: set[str] = set()  # heads that were served already

    def heads(self, heads: Iterable[LeafHead], band: tuple[Tier, int]) -> None:
        """Heads come first in their tier and priority, in their own order. A head is bound by the reservations of
        those before it, so reservations are found anew only once one of those waits."""
        stale = waits = False
        for head in heads:
            candidate = head.candidate
            key = candidate.unit.id
            if key in self._heads or key in self._started:
                continue
            if stale and waits:
                self._reserve()
                stale = False
            out = key in self._barred or candidate.unit.leaf in self.done.stopped
            out = out or (candidate.tier, -candidate.unit.priority) > band
            if not out and self._start(candidate, self._profile.bound(candidate)):
                self._heads.add(key)
                stale = True
            else:
                waits = True
        if stale:
            self._reserve()

    def _reserve(self) -> None:
        """Find the reservations anew beside all that has started."""
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
        """Whether a unit like it was refused. A refusal that no reservation caused holds under every bound."""
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
            of_leaf = refusal is not None and not refusal.user  # a limit of the leaf holds for all its users
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


@dataclass(frozen=True, slots=True)
class GreedyOutcome:
    """The units that start, with their members, and the profile after them. `out`: units that fit a member, but not
    beside all others there. `bounds`: those that ended the search for further starts."""

    placed: Pairs
    profile: Profile
    done: Pass
    out: dict[str, str] = field(default_factory=dict)
    bounds: frozenset[str] = frozenset()


def settle(
    situation: Situation, profile: Profile, placed: Sequence[tuple[Candidate, str]], barred: Iterable[str] = ()
) -> GreedyOutcome:
    """`placed`, which `profile` counts already, and all that starts beside it. `barred`: units that may not start."""
    out = dict.fromkeys(barred, "")
    placed = list(placed)
    done = Pass()
    bounds = frozenset[str]()
    rooms: dict[str, MemberRoom] = {}  # as the next cycle will see them, once they have been laid out
    for _ in range(BOUNDS.fill_rounds):
        started = {candidate.unit.id for candidate, _ in placed} | situation.new
        before = tuple(placed)
        done = place(
            profile,
            situation.groups,
            situation.head_choice.heads,
            started,
            out,
            lambda new, before=before: situation.spans((*before, *new)),  # type: ignore[misc]
        )
        placed += done.placed
        if not placed or (rooms and not done.placed):
            break
        changed = sorted({member for _, member in done.placed}) if rooms else None
        rooms |= _whole(situation, placed, profile, out, changed)
        left = situation.less_kept({name: room.copy() for name, room in rooms.items()}, placed)
        profile = Profile(left, profile.usage, situation.space, situation.spans(placed))
        if not done.placed:
            break
    else:
        bounds = frozenset({"fill_rounds"})
    return GreedyOutcome(placed, profile, done, {unit: member for unit, member in out.items() if member}, bounds)


def _whole(
    situation: Situation, placed: Pairs, profile: Profile, out: dict[str, str], changed: Iterable[str] | None
) -> dict[str, MemberRoom]:
    """The rooms that the next cycle sees in the members that `changed` since they were laid out, or in all, once a gang
    without a place in that layout is out of `placed` and `profile`, and in `out`: a set of gangs may fit one after
    another, and not when laid out by size. Of the lowest priority there the gangs without a place go, or, if those are
    of a higher priority, the last gang."""
    layout = situation.layout(placed, changed)
    while short := [name for name, units in layout.lost.items() if not situation.lost.issuperset(units)]:
        back: list[int] = []
        for name in short:
            here = [index for index, (_, member) in enumerate(placed) if member == name]
            worst = max((service_order(placed[index][0])[:2] for index in here), default=None)
            low = [index for index in here if service_order(placed[index][0])[:2] == worst]
            back += [index for index in low if placed[index][0].unit.id in layout.lost[name]] or low[-1:]
        if not back:
            break
        out |= {placed[index][0].unit.id: placed[index][1] for index in back}
        gone = [placed[index] for index in with_followers(placed, back)]
        for pair in gone:
            placed.remove(pair)
            profile.give_back(pair[0])
        again = situation.layout(placed, sorted({member for _, member in gone}))
        layout.rooms.update(again.rooms)
        layout.lost = again.lost
    return layout.rooms


def with_followers(placed: Pairs, indices: Iterable[int]) -> list[int]:
    """These indices of `placed`, and those of all gangs behind one of them in a queue that starts strictly in order."""
    numbers = set(indices)
    for index in list(numbers):
        first = placed[index][0]
        if first.block:
            behind = (i for i, (c, _) in enumerate(placed) if c.unit.leaf == first.unit.leaf)
            numbers |= {i for i in behind if service_order(placed[i][0]) > service_order(first)}
    return sorted(numbers)


AGES_S = (600.0, 3600.0, 6 * 3600.0)  # age buckets: a gang's weight grows when it has waited this long
Band = tuple[int, int]  # tier, minus priority: smaller is served first


def band_of(candidate: Candidate) -> Band:
    return (int(candidate.tier), -candidate.unit.priority)


def age_bucket(unit: Unit, now: float) -> int:
    """How many of the thresholds it has waited past; a clock that went backwards makes it young."""
    return bisect_right(AGES_S, now - unit.enqueued_at)


def weight(shape: Shape, age: int, space: Space) -> int:
    """The value of starting a gang, within its band: its devices, more if it has waited long. A resource that one
    pod asks for by the thousand (GPU memory in bytes, shares of a core) is an amount, not a device."""
    devices = space.devices
    size = sum(
        amount * part.replicas
        for part in shape
        for index, amount in part.need
        if index < devices and amount <= BOUNDS.weighed_devices
    )
    return max(1, size) * (4 + age)


def value(situation: Situation, outcome: GreedyOutcome) -> dict[Band, int]:
    """The worth of an outcome by band: the solver's own measure."""
    total: dict[Band, int] = {}
    weights: dict[tuple[int, int], int] = {}
    space = situation.space
    for candidate, _ in outcome.placed:
        band = band_of(candidate)
        kind = (candidate.shape, age_bucket(candidate.unit, situation.now))
        if kind not in weights:
            weights[kind] = weight(space.shapes[kind[0]], kind[1], space)
        total[band] = total.get(band, 0) + weights[kind]
    return total


def worth(situation: Situation, outcome: GreedyOutcome) -> tuple[int, ...]:
    """`value` as numbers that compare: the most important tier and priority first."""
    found = value(situation, outcome)
    bands = {(int(tier), -group.priority) for group in situation.groups for tier, _, _ in group.segments}
    return tuple(found.get(band, 0) for band in sorted(bands))
