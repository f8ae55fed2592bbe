"""The ground that gangs are placed on: rooms and usage while a plan is made, and the best member for a gang.

Heads hold room and quota against others (hold.py). Whom they bind is asked once for candidates alike, as a *bound*: a
set of holds, as bits. Whoever places passes it on; 0, for most, costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate, Group
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.greedy.ranking import Ranking
from fleet.placement.packing.room import Fit, MemberRoom, Shape, Space
from fleet.placement.reservation.bypass import Kept
from fleet.placement.reservation.hold import Hold
from fleet.quota.tiers import Tier
from fleet.quota.usage import Refusal, Usage


class Ground:
    """Rooms and usage while placing. Answers about a member are kept until its room changes."""

    def __init__(
        self, rooms: Mapping[str, MemberRoom], usage: Usage | None, space: Space, holds: Sequence[Hold] = ()
    ) -> None:
        self.rooms = {name: room.copy() for name, room in rooms.items()}
        self.usage = usage.copy() if usage is not None else None
        self.space = space
        self.holds = tuple(hold.copy() for hold in holds)
        self.withheld: dict[str, tuple[MemberRoom, Hold]] = {}  # members where room is kept: what there is, for whom
        self.kept: dict[str, list[Shape]] = {}  # and for gangs of which shapes
        self._devices = space.devices
        self._fits: dict[tuple[int, str, bool], tuple[int, Fit | None]] = {}
        self._rankings: dict[tuple[int, int, bool], Ranking] = {}
        self._touched: list[str] = []  # members whose room has changed
        self._grows = any(pool.potential for room in self.rooms.values() for pool in room.pools)
        self._standing = (1 << len(self.holds)) - 1  # holds whose head has not started
        self._bounds: dict[tuple[object, ...], int] = {}
        self._passable = [n for n, hold in enumerate(self.holds) if hold.tier > Tier.GUARANTEED]
        self._own = {  # a head is not bound by its own hold, nor by those behind it, who count on its start
            hold.head.unit.id: self._standing & (-1 << number) for number, hold in enumerate(self.holds)
        }
        self._ats = sorted({hold.nomination.at for hold in self.holds})
        self._until = [sum(1 << n for n, hold in enumerate(self.holds) if hold.nomination.at <= at) for at in self._ats]
        self._held: dict[str, list[int]] = {}
        for number, hold in enumerate(self.holds):
            self._held.setdefault(hold.member, []).append(number)

    def copy(self) -> Ground:
        """The same ground, to place on in another way."""
        made = Ground(self.rooms, self.usage, self.space, self.holds)
        made._standing = self._standing
        return made

    def bound(self, candidate: Candidate) -> int:
        """The holds that bind this candidate, as bits."""
        return self.standing(self._binding(candidate.unit, candidate.tier, lambda: candidate), candidate.unit)

    def binding(self, group: Group, tier: Tier, index: int) -> int:
        """The holds that bind the units of a group that are in this tier (`index` is one of them) and may run for ever,
        as bits; `standing` says which of them bind one of these now."""
        return self._binding(group.units[index], tier, lambda: group.candidate(index)) if self.holds else 0

    def passing(self, leaf: str | None, tier: Tier) -> int:
        """The holds whose heads those of this leaf and tier pass by right if they run for ever, as bits; `standing`
        says whose one of them passes now."""
        heads = ((number, self.holds[number]) for number in self._passable)
        return sum(1 << number for number, hold in heads if tier < hold.tier and leaf != hold.head.unit.leaf)

    def standing(self, binding: int, unit: Unit) -> int:
        """Of the holds that bind units alike, those that bind this one: none whose head may start only when it has
        ended, no head its own, and none that has started."""
        if not binding:
            return 0
        if unit.walltime_s is not None:
            now = self.holds[0].now
            ended_by = bisect_left(self._ats, max(now, now + unit.walltime_s))
            binding &= self._until[ended_by - 1] if ended_by else 0
        return binding & ~self._own.get(unit.id, 0) & self._standing

    def _binding(self, unit: Unit, tier: Tier, candidate: Callable[[], Candidate]) -> int:
        if not self.holds:
            return 0
        key = (unit.leaf, tier, unit.priority, unit.preemptible)
        found = self._bounds.get(key)
        if found is None:
            asking = candidate()
            asking = replace(asking, unit=replace(asking.unit, walltime_s=None))
            found = self._bounds[key] = sum(1 << number for number, hold in enumerate(self.holds) if hold.binds(asking))
        return found

    def beside_heads(self, candidate: Candidate) -> Candidate | None:
        """The candidate as one that may go where no head that binds it collects; None where that leaves it nothing. Its
        quota, and room that is kept, are another matter (awaited.py)."""
        bound = self.bound(candidate)
        taken = {hold.member for number, hold in enumerate(self.holds) if bound & 1 << number}
        eligibility = candidate.eligibility
        choices = tuple(choice for choice in eligibility.choices if choice.member not in taken)
        if len(choices) == len(eligibility.choices):
            return candidate
        number = eligibility.number | (bound + 1) << 32
        narrow = replace(eligibility, number=number, choices=choices)
        return replace(candidate, eligibility=narrow) if choices else None

    def fit(self, shape: int, member: str, bound: int = 0, *, potential: bool = False) -> Fit | None:
        """A packing of the gang into the member, beside the heads that bind it; None where there is none."""
        room = self.rooms[member]
        key = (shape, member, potential)
        known = self._fits.get(key)
        if known is None or (known[0] != room.version and known[1] is not None):
            found = room.fit(self.space.shapes[shape], self._devices, potential=potential)
            known = self._fits[key] = (room.version, found)
        if bound and known[1] is not None:
            for number in self._held.get(member, ()):
                if bound & self._standing & 1 << number and not self.holds[number].spares_room(shape):
                    return None
        return known[1]

    def best(self, shape: int, eligibility: Eligibility, bound: int = 0) -> tuple[str, Fit] | None:
        """Policy's rank and weight first, then the member whose large slots suffer least, then price, then name. Nodes
        that an autoscaler could add are the last choice, after every member that policy allows; fewest of them."""
        best = self._best(shape, eligibility, bound, False)
        return best if best is not None or not self._grows else self._best(shape, eligibility, bound, True)

    def elsewhere(self, candidate: Candidate, takes: Callable[[str], bool]) -> tuple[str, Fit] | None:
        """As `best`, for a candidate that has quota, on nodes that are there, in members that `takes` allows."""
        shape, bound = candidate.shape, self.bound(candidate)
        ranking = self._ranking(shape, candidate.eligibility, False)
        fit = partial(self.fit, shape)
        return ranking.best(fit, self._touched, lambda name: takes(name) and fit(name, bound) is not None)

    def _best(self, shape: int, eligibility: Eligibility, bound: int, potential: bool) -> tuple[str, Fit] | None:
        ranking = self._ranking(shape, eligibility, potential)
        fit = partial(self.fit, shape, potential=potential)
        if not bound:
            return ranking.best(fit, self._touched)
        return ranking.best(fit, self._touched, lambda member: fit(member, bound) is not None)

    def _ranking(self, shape: int, eligibility: Eligibility, potential: bool) -> Ranking:
        key = (shape, eligibility.number, potential)
        ranking = self._rankings.get(key)
        if ranking is None:
            ranking = self._rankings[key] = Ranking(eligibility.choices, self.rooms)
        return ranking

    def admits(self, candidate: Candidate, bound: int = 0) -> bool:
        """Whether quota has room for it, beside the heads that bind it."""
        return self.refusal(candidate) is None and self.spares(candidate, bound)

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """The limit of the tree that it would break."""
        account = candidate.account
        return None if account is None or self.usage is None else self.usage.refusal(account, candidate.request)

    def spares(self, candidate: Candidate, bound: int) -> bool:
        """Whether the heads that bind it still have quota beside it."""
        standing = bound & self._standing
        return not standing or all(
            hold.spares_quota(candidate) for number, hold in enumerate(self.holds) if standing & 1 << number
        )

    def take(self, candidate: Candidate, member: str, fit: Fit) -> None:
        """Place it; a head that is placed holds nothing any more. If it collected in another member, those behind it
        there counted on less: until holds are made again, nothing more comes into their seats. Where it is now, those
        behind it did not count on it."""
        self.rooms[member].take(fit)
        self.started(candidate, member)

    def move(self, member: str, fit: Fit) -> None:
        """Room for one that is charged, and has left its place elsewhere, where nothing comes in before it is laid out
        again."""
        self.rooms[member].take(fit)
        self._touched.append(member)

    def keep(self, kept: Iterable[Kept]) -> None:
        """Keep room from all that comes from now on."""
        for room in kept:
            self.withheld.setdefault(room.member, (self.rooms[room.member].copy(), room.head))
            self.kept.setdefault(room.member, []).append(room.shape)
            self.rooms[room.member].hold(room.shape, self._devices)
            self._touched.append(room.member)

    def take_anew(self, candidate: Candidate, member: str, room: MemberRoom) -> None:
        """Place it where all that was placed in the member is packed anew with it: `room` is what is left."""
        room.version = self.rooms[member].version + 1
        self.rooms[member] = room
        self.started(candidate, member)

    def started(self, candidate: Candidate, member: str) -> None:
        """It starts in room that is taken for it already."""
        self._touched.append(member)
        if candidate.account is not None and self.usage is not None:
            self.usage.charge(candidate.account, candidate.request)
        for number, hold in enumerate(self.holds):
            if self._standing & 1 << number:
                if hold.head.unit.id == candidate.unit.id:
                    self._standing &= ~(1 << number)
                    if hold.member != member:
                        for behind in self.holds[number + 1 :]:
                            if behind.member == hold.member:
                                behind.close()
                            elif behind.member == member:
                                behind.see(candidate, member)
                elif not self._own.get(candidate.unit.id, 0) & 1 << number:
                    hold.see(candidate, member)
