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
from fleet.placement.candidate import Candidate, order
from fleet.placement.hold import FOREVER, Hold, passable
from fleet.placement.room import MemberRoom
from fleet.placement.space import Shape, Space
from fleet.quota.guarantee import Guarantees
from fleet.quota.tiers import Tier, add
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot

_MOST_KEPT = 256  # gangs whose room is kept for one head


@dataclass(frozen=True, slots=True)
class Kept:
    """Room for one gang of a shape in a member, so that the seat of a head is spared."""

    member: str
    shape: Shape
    head: Hold


class Bypass:
    """For the heads of one decision. `promises`: None without a tree."""

    def __init__(self, snapshot: Snapshot, space: Space, promises: Guarantees | None) -> None:
        self._snapshot = snapshot
        self._space = space
        mins = promises.min if promises is not None else {}
        self._leaves = {leaf: limits for leaf, limits in mins.items() if any(limits.values())}
        self._running: dict[str, list[Unit]] | None = None
        self._bars: dict[tuple[object, ...], list[str]] = {}

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
        new = [(candidate.unit, member) for candidate, member in placed if candidate.unit.leaf in self._leaves]
        left = {name: room.copy() for name, room in rooms.items()}
        collecting: set[str] = set()  # where this head and those ahead of it do
        for hold in holds:
            collecting.add(hold.member)
            if hold.tier is Tier.GUARANTEED:
                continue
            work = [(unit, self._shape(unit)) for unit in self._guaranteed(hold.member, new, hold)]
            lead = max((FOREVER if unit.walltime_s is None else unit.walltime_s for unit, _ in work), default=0.0)
            if not work or len(work) > _MOST_KEPT or hold.nomination.at - hold.now > lead:
                continue
            if hold.spares_all([shape for _, shape in work]):
                continue
            work.sort(key=lambda item: order(item[0]))
            work.sort(key=lambda item: [self._space.size(part.need) for part in item[1]], reverse=True)
            homes = self._homes(work, collecting, new)
            if homes is None:
                continue
            for unit, shape in work:
                home = next((name for name in self._open_to(unit, collecting) if self._fits(left[name], shape)), None)
                where = home or homes[unit.id]
                left[where].hold(shape, self._space.devices)
                found.append(Kept(where, shape, hold))
        return found

    def _homes(
        self, work: Sequence[tuple[Unit, Shape]], collecting: Set[str], new: Sequence[tuple[Unit, str]]
    ) -> dict[str, str] | None:
        """Where each could be if other members had nothing but guaranteed work; None where not all find room."""
        empty: dict[str, MemberRoom] = {}
        found: dict[str, str] = {}
        for unit, shape in work:
            for name in self._open_to(unit, collecting):
                if name not in empty:
                    room = MemberRoom.emptied(self._snapshot.members[name], self._space)
                    empty[name] = room or MemberRoom(name, ())
                    for other in self._guaranteed(name, new, None):
                        empty[name].hold(self._shape(other), self._space.devices)
                if self._fits(empty[name], shape):
                    empty[name].hold(shape, self._space.devices)
                    found[unit.id] = name
                    break
            else:
                return None
        return found

    def _guaranteed(self, member: str, new: Iterable[tuple[Unit, str]], hold: Hold | None) -> list[Unit]:
        """What is in a member of leaves that are promised something (but for the head's own), as much of each as it is
        promised, in the order of the queue. Not by tier: which of a leaf's work is guaranteed changes as others end."""
        if self._running is None:
            self._running = {}
            for unit in self._snapshot.backlog.holding.values():
                if unit.phase is Phase.PLACED and unit.leaf in self._leaves:
                    self._running.setdefault(unit.member or "", []).append(unit)
        units = [*self._running.get(member, ()), *(unit for unit, at in new if at == member)]
        units.sort(key=order)
        used: dict[str, dict[str, int]] = {}
        found: list[Unit] = []
        for unit in units:
            if hold is not None and unit.leaf == hold.head.unit.leaf:
                continue
            leaf = unit.leaf or ""
            after = dict(used.get(leaf, {}))
            add(after, request_of(unit))
            if all(after.get(name, 0) <= limit for name, limit in self._leaves[leaf].items()):
                used[leaf] = after
                found.append(unit)
        return found

    def _open_to(self, unit: Unit, collecting: Set[str]) -> list[str]:
        """The members where it may go, but for those where room is collected."""
        key = (unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded)
        if key not in self._bars:
            members = sorted(self._snapshot.members.items())
            self._bars[key] = [name for name, at in members if at.ready and not member_bars(unit, at)]
        return [name for name in self._bars[key] if name not in collecting]

    def _fits(self, room: MemberRoom, shape: Shape) -> bool:
        return room.fit(shape, self._space.devices) is not None

    def _shape(self, unit: Unit) -> Shape:
        return self._space.shapes[self._space.number(unit.components, unit.topology)]
