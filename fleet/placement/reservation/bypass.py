"""Room kept in other members for guaranteed work that would come into the seat of a head within its share.

Giving way (giveway.py) needs other room at the moment when such work starts. Where other members are full of work that
is not guaranteed, whatever guaranteed job follows one that has ended beside the head finds room only there, again and
again, and the head never starts. So as much room as the guaranteed work of other leaves has in the head's member is
kept in others against all that is not guaranteed, as it becomes free: once it is there, nothing guaranteed comes into
the head's member any more, and once what is there has ended, neither does it stand in the head's way.

It stands idle until it is used, so none is kept where it would not help: where the head fits beside all of that work
wherever it lies, where others could not take it even if nothing but guaranteed work ran there, and before what comes in
now could still be there when the head is to start. What may go where depends on each unit's policy. That room is
counted as gangs pack, not against the worst that a member's scheduler may do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from fleet.model.matching import member_bars
from fleet.model.unit import Phase, Unit
from fleet.placement.candidates.candidate import Candidate, order
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Shape, Space
from fleet.placement.reservation.hold import FOREVER, Hold, passable
from fleet.quota.guarantee import Guarantees
from fleet.quota.tiers import Tier, add
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.snapshot.backlog import gang_key

_MOST_KEPT = 256  # gangs whose room is kept for one head


@dataclass(frozen=True, slots=True)
class Kept:
    """Room for one gang of a shape in a member, so that the seat of a head is spared."""

    member: str
    shape: Shape
    head: Hold


_Uses = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """A unit of a leaf that is promised something: its shape, what it uses of each resource, and its turn."""

    unit: Unit
    shape: Shape
    uses: _Uses
    turn: tuple[int, float, str, str]


_Known = tuple[str, tuple[str, ...]]  # a member, and who starts there in this plan


class Bypass:
    """For the heads of one decision. `promises`: None without a tree."""

    def __init__(self, snapshot: Snapshot, space: Space, promises: Guarantees | None) -> None:
        self._snapshot = snapshot
        self._space = space
        mins = promises.min if promises is not None else {}
        self._leaves = {leaf: limits for leaf, limits in mins.items() if any(limits.values())}
        self._running: dict[str, list[Unit]] | None = None
        self._lines: dict[str, list[_Work]] = {}  # of members, what runs there
        self._found: dict[_Known, list[_Work]] = {}  # asked for again and again: a decision settles in rounds
        self._beside: dict[_Known, MemberRoom] = {}
        self._bars: dict[tuple[object, ...], list[str]] = {}
        self._asked: dict[tuple[object, ...], tuple[Shape, _Uses]] = {}  # many are alike

    @property
    def needed(self) -> bool:
        """Whether anything is promised."""
        return bool(self._leaves)

    def kept(
        self, holds: Sequence[Hold], rooms: Mapping[str, MemberRoom], placed: Iterable[tuple[Candidate, str]]
    ) -> list[Kept]:
        """The room to keep now. `rooms`: what is left beside `placed`, which starts in this plan."""
        found: list[Kept] = []
        if not self.needed or not passable(holds):
            return found
        new: dict[str, list[Unit]] = {}
        for candidate, member in placed:
            if candidate.unit.leaf in self._leaves:
                new.setdefault(member, []).append(candidate.unit)
        left = {name: room.copy() for name, room in rooms.items()}
        collecting: set[str] = set()  # where this head and those ahead of it do
        for hold in holds:
            collecting.add(hold.member)
            if hold.tier is Tier.GUARANTEED:
                continue
            own = hold.head.unit.leaf
            work = [at for at in self._guaranteed(hold.member, new.get(hold.member, ())) if at.unit.leaf != own]
            times = (at.unit.walltime_s for at in work)
            lead = max((FOREVER if walltime is None else walltime for walltime in times), default=0.0)
            if not work or len(work) > _MOST_KEPT or hold.nomination.at - hold.now > lead:
                continue
            if hold.spares_all([at.shape for at in work]):
                continue
            sizes = {at.shape: [self._space.size(part.need) for part in at.shape] for at in work}
            work.sort(key=lambda at: sizes[at.shape], reverse=True)
            homes = self._homes(work, collecting, new)
            if homes is None:
                continue
            for at in work:
                open_to = self._open_to(at.unit, collecting)
                home = next((name for name in open_to if self._fits(left[name], at.shape)), None)
                where = home or homes[at.unit.id]
                left[where].hold(at.shape, self._space.devices)
                found.append(Kept(where, at.shape, hold))
        return found

    def _homes(
        self, work: Sequence[_Work], collecting: Set[str], new: Mapping[str, Sequence[Unit]]
    ) -> dict[str, str] | None:
        """Where each could be if other members had nothing but guaranteed work; None where not all find room."""
        empty: dict[str, MemberRoom] = {}
        found: dict[str, str] = {}
        for at in work:
            for name in self._open_to(at.unit, collecting):
                if name not in empty:
                    empty[name] = self._emptied(name, new.get(name, ())).copy()
                if self._fits(empty[name], at.shape):
                    empty[name].hold(at.shape, self._space.devices)
                    found[at.unit.id] = name
                    break
            else:
                return None
        return found

    def _emptied(self, member: str, new: Sequence[Unit]) -> MemberRoom:
        """The member with nothing but guaranteed work."""
        key = (member, tuple([unit.id for unit in new]))
        room = self._beside.get(key)
        if room is None:
            room = MemberRoom.emptied(self._snapshot.members[member], self._space) or MemberRoom(member, ())
            room.hold_all((other.shape for other in self._guaranteed(member, new)), self._space.devices)
            self._beside[key] = room
        return room

    def _guaranteed(self, member: str, new: Sequence[Unit]) -> Sequence[_Work]:
        """What is in a member of leaves that are promised something, `new` included, as much of each as it is promised,
        in the order of the queue. Not by tier: which of a leaf's work is guaranteed changes as others end."""
        key = (member, tuple([unit.id for unit in new]))
        known = self._found.get(key)
        if known is not None:
            return known
        line = self._line(member)
        if new:
            line = sorted([*line, *map(self._work, new)], key=lambda at: at.turn)
        used: dict[str, dict[str, int]] = {leaf: {} for leaf in self._leaves}
        found: list[_Work] = []
        for at in line:
            mine, limits = used[at.unit.leaf or ""], self._leaves[at.unit.leaf or ""]
            if all(mine.get(name, 0) + amount <= limits.get(name, FOREVER) for name, amount in at.uses):
                for name, amount in at.uses:
                    mine[name] = mine.get(name, 0) + amount
                found.append(at)
        self._found[key] = found
        return found

    def _line(self, member: str) -> list[_Work]:
        """What runs there of leaves that are promised something, in the order of the queue."""
        if self._running is None:
            self._running = {}
            for unit in self._snapshot.backlog.holding.values():
                if unit.phase is Phase.PLACED and unit.leaf in self._leaves:
                    self._running.setdefault(unit.member or "", []).append(unit)
        if member not in self._lines:
            self._lines[member] = sorted(map(self._work, self._running.get(member, ())), key=lambda at: at.turn)
        return self._lines[member]

    def _open_to(self, unit: Unit, collecting: Set[str]) -> list[str]:
        """The members where it may go, but for those where room is collected."""
        key = (unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded)
        if key not in self._bars:
            members = sorted(self._snapshot.members.items())
            self._bars[key] = [name for name, at in members if at.ready and not member_bars(unit, at)]
        return [name for name in self._bars[key] if name not in collecting]

    def _fits(self, room: MemberRoom, shape: Shape) -> bool:
        return room.fit(shape, self._space.devices) is not None

    def _work(self, unit: Unit) -> _Work:
        known = (gang_key(unit.components), unit.topology, unit.preemptible)
        if known not in self._asked:
            number = self._space.number(unit.components, unit.topology)
            uses: dict[str, int] = {}
            add(uses, request_of(unit))
            self._asked[known] = (self._space.shapes[number], tuple(uses.items()))
        return _Work(unit, *self._asked[known], order(unit))
