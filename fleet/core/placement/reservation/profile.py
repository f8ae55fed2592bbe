"""The profile: free room of each member and usage of the quota tree, now and at the start of every reservation.

The profile answers the one question of backfill: may a unit start in a member beside all reservations that bind it, or
which reservation refuses? The greedy pass, the rows of the linked model, the decoding of its answers and preemption all
ask here. Units alike are bound by the same reservations, as a *bound*: a set of spans, as bits; 0 costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.candidates.eligibility import Eligibility, Ranking
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.placement.reservation.span import Span
from fleet.core.quota.usage import Refusal, Usage


class Profile:
    """See the module. Answers about a member are kept until its room changes.

    A profile changes, and only by its methods `start`, `start_anew`, `hold`, `take`, `give_back` and `reserve`. A pass
    starts thousands of gangs in one profile: with another profile after each start, which has no answers yet, 1,900
    starts in 200 members took 3.2 s in place of 0.16 s. So whoever starts units makes a profile first
    (`Situation.profile`, `copy`), and nobody else has that one until it is complete. What a profile is made of stays as
    it is: rooms, usage and spans are copied."""

    def __init__(
        self, rooms: Mapping[str, MemberRoom], usage: Usage | None, space: Space, spans: Sequence[Span] = ()
    ) -> None:
        """`rooms` and `usage`: now, less what is claimed; `spans`: of the heads, in their order."""
        self.rooms = {name: room.copy() for name, room in rooms.items()}
        self.usage = usage.copy() if usage is not None else None
        self.space = space
        self._devices = space.devices
        self._fits: dict[tuple[int, str, bool], tuple[int, Fit | None]] = {}
        self._rankings: dict[tuple[int, int, bool], Ranking] = {}
        self._touched: list[str] = []  # members whose room has changed
        self._grows = any(pool.potential for room in self.rooms.values() for pool in room.pools)
        self.reserve(spans)

    def reserve(self, spans: Sequence[Span]) -> None:
        """Replace the spans by these, which were found beside all that has started."""
        self.spans = tuple(span.copy() for span in spans)
        self._standing = (1 << len(self.spans)) - 1  # spans whose unit has not started
        self._sides: dict[tuple[str | None, Tier, int, bool], tuple[int, int]] = {}
        self._own = {  # a head is not bound by its own span, nor by those behind it, which count on its start
            span.holder.unit.id: self._standing & (-1 << number) for number, span in enumerate(self.spans)
        }
        starts = [span.reservation.start for span in self.spans]
        self._starts = sorted(set(starts))
        self._until = [sum(1 << n for n, start in enumerate(starts) if start <= at) for at in self._starts]
        self._there: dict[str, list[int]] = {}  # the spans in a member
        for number, span in enumerate(self.spans):
            self._there.setdefault(span.member, []).append(number)

    def copy(self) -> Profile:
        """The same profile, to start other units in."""
        made = Profile(self.rooms, self.usage, self.space, self.spans)
        made._standing = self._standing
        return made

    # -- which reservations bind

    def bound(self, candidate: Candidate) -> int:
        """The spans that bind a candidate, as bits."""
        return self.standing(self.binding(candidate.unit, candidate.tier), candidate.unit)

    def binding(self, unit: Unit, tier: Tier) -> int:
        """The spans that bind units alike in leaf, tier and priority if they run for ever, as bits; `standing` says
        which of these bind one of them now."""
        return self._both(unit, tier)[0] if self.spans else 0

    def passing(self, unit: Unit, tier: Tier) -> int:
        """The spans that such units pass by right, as bits; `standing` as for `binding`."""
        return self._both(unit, tier)[1] if self.spans else 0

    def standing(self, bits: int, unit: Unit) -> int:
        """Of some spans those that a unit starting now outlasts: not its own, and none whose unit has started."""
        if not bits:
            return 0
        if unit.walltime_s is not None:
            ended_by = bisect_left(self._starts, self.spans[0].end_of(unit))
            bits &= self._until[ended_by - 1] if ended_by else 0
        return bits & ~self._own.get(unit.id, 0) & self._standing

    def _both(self, unit: Unit, tier: Tier) -> tuple[int, int]:
        key = (unit.leaf, tier, unit.priority, unit.preemptible)
        found = self._sides.get(key)
        if found is None:
            binds = [span.reservation.binds(unit, tier) for span in self.spans]
            bound = sum(1 << number for number, binding in enumerate(binds) if binding)
            found = self._sides[key] = (bound, ~bound & ((1 << len(binds)) - 1))
        return found

    # -- may it start

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """The limit of the quota tree that a candidate would break now."""
        account = candidate.account
        return None if account is None or self.usage is None else self.usage.refusal(account, candidate.request)

    def spares_quota(self, candidate: Candidate, bound: int) -> bool:
        """Whether the reservations of `bound` still have quota beside a candidate."""
        standing = bound & self._standing
        return not standing or all(
            span.spares_quota(candidate) for number, span in enumerate(self.spans) if standing & 1 << number
        )

    def admits(self, candidate: Candidate, bound: int = 0) -> bool:
        """Whether quota has room for a candidate, beside the reservations of `bound`."""
        return self.refusal(candidate) is None and self.spares_quota(candidate, bound)

    def fit(self, shape: int, member: str, bound: int = 0, *, potential: bool = False) -> Fit | None:
        """A packing of a gang into a member that spares the reservations of `bound`; None where there is none."""
        room = self.rooms[member]
        key = (shape, member, potential)
        entry = self._fits.get(key)
        if entry is None or (entry[0] != room.version and entry[1] is not None):
            found = room.fit(self.space.shapes[shape], self._devices, potential=potential)
            entry = self._fits[key] = (room.version, found)
        if bound and entry[1] is not None and self._refusing(shape, member, bound) is not None:
            return None
        return entry[1]

    def refusing(self, candidate: Candidate) -> tuple[Span, str] | None:
        """The reservation that refuses a candidate which would have quota and room but for it, and the member of that
        room; None where no reservation does."""
        bound = self.bound(candidate)
        if not bound or self.refusal(candidate) is not None:
            return None
        best = self.best(candidate.shape, candidate.eligibility)
        if best is None:
            return None
        standing = [span for number, span in enumerate(self.spans) if bound & 1 << number]
        by_quota = next((span for span in standing if not span.spares_quota(candidate)), None)
        if by_quota is not None:
            return by_quota, ""
        members = (best[0], *(choice.member for choice in candidate.eligibility.choices))
        found = ((self._refusing(candidate.shape, member, bound), member) for member in members)
        return next(((span, member) for span, member in found if span is not None), None)

    def _refusing(self, shape: int, member: str, bound: int) -> Span | None:
        for number in self._there.get(member, ()):
            if bound & self._standing & 1 << number and not self.spans[number].spares_room(shape):
                return self.spans[number]
        return None

    def best(self, shape: int, eligibility: Eligibility, bound: int = 0, passing: int = 0) -> tuple[str, Fit] | None:
        """The member for a gang, with the packing: policy's rank and weight first, then the member whose large slots
        suffer least, then price, then name. Before all others, a member where the gang spares the reservations that
        it passes. Nodes that an autoscaler could add are the last choice."""
        if passing:
            spared = self.best(shape, eligibility, bound | passing)
            if spared is not None:
                return spared
        best = self._best(shape, eligibility, bound, False)
        return best if best is not None or not self._grows else self._best(shape, eligibility, bound, True)

    def _best(self, shape: int, eligibility: Eligibility, bound: int, potential: bool) -> tuple[str, Fit] | None:
        key = (shape, eligibility.number, potential)
        ranking = self._rankings.get(key)
        if ranking is None:
            ranking = self._rankings[key] = Ranking(eligibility.choices, self.rooms)
        fit = partial(self.fit, shape, potential=potential)
        if not bound:
            return ranking.best(fit, self._touched)
        return ranking.best(fit, self._touched, lambda member: fit(member, bound) is not None)

    # -- what starts

    def start(self, candidate: Candidate, member: str, fit: Fit) -> None:
        """Start a unit. A head that starts ends its reservation. Where a head starts in another member, the heads
        behind it counted on less: until spans are found again, nothing more comes in there."""
        self.take(member, fit)
        self._count_start(candidate, member)

    def start_anew(self, candidate: Candidate, member: str, room: MemberRoom) -> None:
        """Start a unit where all that starts in the member is packed anew with it: `room` is what is left."""
        room.version = self.rooms[member].version + 1
        self.rooms[member] = room
        self._touched.append(member)
        self._count_start(candidate, member)

    def take(self, member: str, fit: Fit) -> None:
        """Take room for a unit that is counted already."""
        self.rooms[member].take(fit)
        self._touched.append(member)

    def hold(self, candidate: Candidate, member: str) -> None:
        """Keep room and quota for a unit that does not start, whether there is room for it or not."""
        self.rooms[member].hold(self.space.shapes[candidate.shape], self._devices)
        self._touched.append(member)
        self._charge(candidate)

    def give_back(self, candidate: Candidate) -> None:
        """Give back the quota of a unit that does not start after all. Its room stays taken, until the member is laid
        out anew."""
        self._charge(candidate, -1)

    def _charge(self, candidate: Candidate, times: int = 1) -> None:
        if candidate.account is not None and self.usage is not None:
            self.usage.charge(candidate.account, candidate.request, times)

    def _count_start(self, candidate: Candidate, member: str) -> None:
        self._charge(candidate)
        key = candidate.unit.id
        for number, span in enumerate(self.spans):
            if not self._standing & 1 << number:
                continue
            if span.holder.unit.id == key:
                self._standing &= ~(1 << number)
                for behind in self.spans[number + 1 :] if span.member != member else ():
                    if behind.member == span.member:
                        behind.close()
                    elif behind.member == member:
                        behind.see(candidate, member)
            elif not self._own.get(key, 0) & 1 << number:
                span.see(candidate, member)
