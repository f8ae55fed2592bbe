"""The members that may take a unit, and the order in which they are tried.

Units with the same policy share one `Eligibility`, which is made once. Rank 0 comes first: the policy's groups in
order, and members to avoid after all others. Weights and price order within a rank.

Asking every member again for every gang that starts costs members times gangs. A start changes the room of one member.
So a `Ranking` keeps the members that could take a kind of gang, in order. Before an answer it asks again only the
members whose room has changed since the last answer. `Nevers` knows the gangs that fit no member even if nothing ran
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from fleet.core.model.matching import member_bars
from fleet.core.model.member import Member
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Unit
from fleet.core.placement.packing.draft import Fit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space


@dataclass(frozen=True, slots=True)
class MemberChoice:
    """A member that may take the unit. Smaller `order` is preferred before fit, smaller `after` among equal fits."""

    member: str
    order: tuple[int, int]  # rank, minus weight
    after: tuple[int, str]  # price, name


@dataclass(frozen=True, slots=True)
class Eligibility:
    """`choices`: ready members, best first. `allowed`: also members that are not ready. `refusal`: why there are
    no choices."""

    number: int
    choices: tuple[MemberChoice, ...]
    allowed: tuple[str, ...]
    refusal: Reason | None


class Policies:
    """Eligibilities of one decision, by the part of a unit that decides them."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = [members[name] for name in sorted(members)]
        self._found: dict[object, Eligibility] = {}
        self._same: dict[object, int] = {}

    def of(self, unit: Unit) -> Eligibility:
        key = (
            unit.affinity_groups,
            unit.tolerations,
            unit.needs_kind,
            unit.excluded,
            unit.avoid,
            unit.preferences,
        )
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._make(unit)
        return found

    def _make(self, unit: Unit) -> Eligibility:
        weights = dict(unit.preferences)
        choices: list[MemberChoice] = []
        allowed: list[str] = []
        bars: Counter[str] = Counter()
        waiting: list[str] = []
        for member in self._members:
            barred = member_bars(unit, member)
            if barred:
                bars[barred] += 1
                continue
            allowed.append(member.name)
            if not member.ready:
                waiting.append(f"{member.name} ({member.not_ready_reason or 'not ready'})")
                continue
            groups = [number for number, group in enumerate(unit.affinity_groups) if member.name in group.members]
            rank = (groups[0] if groups else 0) + (len(unit.affinity_groups) + 1) * (member.name in unit.avoid)
            choices.append(MemberChoice(member.name, (rank, -weights.get(member.name, 0)), (member.price, member.name)))
        refusal = None
        if not self._members:
            refusal = Reason(Code.NO_MEMBERS)
        elif not allowed:
            ranked = sorted(bars.items(), key=lambda bar: (-bar[1], bar[0]))
            why = ", ".join(f"{count} member(s) {bar}" for bar, count in ranked)
            refusal = Reason(Code.NO_MEMBER_ALLOWED, {"why": why, "members": len(self._members)})
        elif not choices:
            refusal = Reason(Code.MEMBER_NOT_READY, {"why": ", ".join(waiting[:3]), "members": len(waiting)})
        choices.sort(key=lambda choice: (choice.order, choice.after))
        same = (tuple(choices), tuple(allowed), tuple(bars.items()))
        number = self._same.setdefault(same, len(self._same))
        return Eligibility(number, tuple(choices), tuple(allowed), refusal)


_Fits = Callable[[str], Fit | None]
# order, potential, spread, broken, place, version
_Entry = tuple[tuple[int, int], int, int, tuple[int, int, int, int], int, int]


class Ranking:
    """Members for gangs of one shape and eligibility. Policy's rank and weight come first, so a Ranking asks
    the members of a rank once all members of earlier ranks are full: room only shrinks while a plan is made."""

    def __init__(self, choices: Sequence[MemberChoice], rooms: Mapping[str, MemberRoom]) -> None:
        self._choices = choices
        self._rooms = rooms
        self._asked: dict[str, int] = {}  # members of the ranks so far, by their place among the choices
        self._queue: list[_Entry] = []
        self._seen = 0

    def best(
        self, fit: _Fits, touched: Sequence[str], takes: Callable[[str], bool] | None = None
    ) -> tuple[str, Fit] | None:
        """The first member that takes a gang, with the packing. `fit`: the packing into a member as it is now, None for
        good once there is none; `touched`: the members whose room has changed, in all; `takes`: whether a member may
        be used for this gang, if that is in question."""
        if self._seen < len(touched):
            for name in set(touched[self._seen :]):
                if name in self._asked:
                    self._push(self._asked[name], fit)
            self._seen = len(touched)
        passed: list[_Entry] = []
        answer: tuple[str, Fit] | None = None
        while answer is None:
            if not self._queue:
                if not self._next_rank(fit):
                    break
                continue
            entry = self._queue[0]
            name = self._choices[entry[4]].member
            packing = fit(name) if entry[5] == self._rooms[name].version else None
            if packing is None:
                heappop(self._queue)  # the member has changed since, and was asked again then
            elif takes is not None and not takes(name):
                passed.append(heappop(self._queue))
            else:
                answer = (name, packing)
        for entry in passed:
            heappush(self._queue, entry)
        return answer

    def _next_rank(self, fit: _Fits) -> bool:
        """Ask the members of the next rank, whether or not one of them has room; False when there is none."""
        start = len(self._asked)
        if start == len(self._choices):
            return False
        for place in range(start, len(self._choices)):
            if self._choices[place].order != self._choices[start].order:
                break
            self._asked[self._choices[place].member] = place
            self._push(place, fit)
        return True

    def _push(self, place: int, fit: _Fits) -> None:
        choice = self._choices[place]
        packing = fit(choice.member)
        if packing is not None:
            version = self._rooms[choice.member].version
            entry = (choice.order, packing.potential, packing.spread, packing.broken, place, version)
            heappush(self._queue, entry)


class Nevers:
    """Whether a gang would fit no member even if nothing ran there; answers are kept by shape and eligibility."""

    def __init__(self, members: Mapping[str, Member], space: Space) -> None:
        self._members = members
        self._space = space
        self._never: dict[tuple[int, int], bool] = {}
        self._empty: dict[str, MemberRoom | None] = {}

    def of(self, shape: int, eligibility: Eligibility) -> bool:
        key = (shape, eligibility.number)
        if key not in self._never:
            rooms = self.rooms(shape, eligibility)
            self._never[key] = any(pool.counts for room in rooms for pool in room.pools)
        return self._never[key]

    def rooms(self, shape: int, eligibility: Eligibility) -> list[MemberRoom]:
        """The members that may take a gang, empty, if none has room even so; [] if a member has or may have room."""
        empty: list[MemberRoom] = []
        for name in eligibility.allowed:
            if name not in self._empty:
                self._empty[name] = MemberRoom.emptied(self._members[name], self._space)
            room = self._empty[name]
            if room is None or room.fit(self._space.shapes[shape], self._space.devices) is not None:
                return []
            empty.append(room)
        return empty
