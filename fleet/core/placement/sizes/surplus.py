"""The surplus of elastic units beside the units that start: who is late for it, and who gives up how much of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.plan import SizeChange
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.greedy.greedy import with_followers
from fleet.core.placement.greedy.situation import Pairs, Situation
from fleet.core.placement.packing.layout import Layout, lay_out
from fleet.core.placement.packing.room import MemberRoom, committed
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.usage import Usage, account_of, request_of
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.surplus import elastic, smaller, without

Replicas = tuple[tuple[str, int], ...]


class Surplus:
    """What the elastic units have beyond their least, beside the units that start. `levels`: how many of its steps each
    gives up; `bounds`: those that ended the tries for it."""

    def __init__(self, snapshot: Snapshot, situation: Situation, starts: Pairs, profile: Profile) -> None:
        reclaim = snapshot.config.reclaim
        units = elastic(snapshot, situation.now) if reclaim else []
        self.units = sorted(units, key=lambda unit: (-unit.priority, unit.placed_at or 0.0, unit.id))
        self.levels = {unit.id: _leaving(unit) for unit in units}
        self.members = {unit.member or "" for unit in units}
        self._snapshot = snapshot
        self._situation = situation
        self.starts = list(starts)
        self.profile = profile
        self.bounds: set[str] = set()
        self._tries = BOUNDS.size_tries
        self._local: dict[str, Snapshot] = {}  # by member: that member alone

    def late(self) -> dict[str, str]:
        """The units that start once pods are gone, with their members; of strict queues, also all units behind them."""
        if not self.units:
            return {}
        tight = sorted({name for _, name in self.starts if name in self.members and self._crowds(name)})
        late = self._without_quota_or_room(tight)
        for name in tight:
            late |= self._without_place(name, late)
        indices = [index for index, (candidate, _) in enumerate(self.starts) if candidate.unit.id in late]
        followers = (self.starts[index] for index in with_followers(self.starts, indices))
        return {candidate.unit.id: name for candidate, name in followers}

    def _crowds(self, name: str) -> bool:
        """Whether a member has no room for all that starts there while every surplus is there."""
        return self.layout(name, {}) is None

    def _without_quota_or_room(self, tight: Iterable[str]) -> set[str]:
        """The units without quota, or without room in a `tight` member, beside every surplus and those before them."""
        late: set[str] = set()
        usage, space = self._usage_before(), self._situation.space
        self.charge(usage)
        rooms = {name: self._laid_out(name, {}, []).rooms[name] for name in tight}
        for candidate, name in self.starts:
            account = candidate.account if usage is not None else None
            if account is not None and usage is not None and usage.refusal(account, candidate.request) is not None:
                late.add(candidate.unit.id)
                continue
            if name in rooms:
                shape, room = space.shapes[candidate.shape], rooms[name]
                fit = room.fit(shape, space.devices) or room.fit(shape, space.devices, potential=True)
                if fit is None:
                    late.add(candidate.unit.id)
                    continue
                room.take(fit)
            if account is not None and usage is not None:
                usage.charge(account, candidate.request)
        return late

    def _without_place(self, name: str, late: Collection[str]) -> set[str]:
        """The units that find no place in a member in the layout of the next cycle, which lays out by size."""
        out: set[str] = set()
        now = [pair for pair in self.starts if pair[1] == name and pair[0].unit.id not in late]
        while now:
            lost = set(self._laid_out(name, {}, now).lost.get(name, ())) - self._situation.lost
            if not lost:
                break
            out |= {c.unit.id for c, _ in now if c.unit.id in lost} or {now[-1][0].unit.id}
            now = [pair for pair in now if pair[0].unit.id not in out]
        return out

    def move(self, late: Mapping[str, str]) -> bool:
        """Send units that would be late to members that the policy likes as well and that have room now, if any."""
        if not late:
            return False
        profile, kept = self.profile.copy(), {candidate.unit.id for candidate, _ in self._situation.first}
        able = [index for index, (c, _) in enumerate(self.starts) if c.unit.id in late and c.unit.id not in kept]
        moved = [index for index in able if self._move(index, profile)]
        self.profile = profile
        return bool(moved)

    def _move(self, index: int, profile: Profile) -> bool:
        """Whether a unit that starts goes to another member from now on, where `profile` counts it."""
        candidate, name = self.starts[index]
        choices = candidate.eligibility.choices
        order = next(choice.order for choice in choices if choice.member == name)
        others = (choice for choice in choices if choice.order == order and choice.member != name)
        for choice in sorted(others, key=lambda choice: choice.after):
            fit = profile.fit(candidate.shape, choice.member, profile.bound(candidate))
            if fit is None or self._spent():
                continue
            self.starts[index] = candidate, choice.member
            if choice.member not in self.members or self.layout(choice.member, {}) is not None:
                profile.take(choice.member, fit)
                return True
            self.starts[index] = candidate, name
        return False

    def shrinks(self, late: Mapping[str, str]) -> tuple[SizeChange, ...]:
        """The units that become smaller for those that are `late`: each keeps as much as it can, the oldest most."""
        self._spare_quota()
        for name in sorted(set(late.values()) & self.members):
            self._spare_room(name)
        resizes = []
        for unit in self.units:
            level = self.levels[unit.id]
            if level > _leaving(unit):
                serves = next((key for key, member in late.items() if member == unit.member), next(iter(late)))
                sizes = _replicas(unit, smaller(unit, level))
                resizes.append(SizeChange(unit.id, unit.member or "", sizes, serves))
        return tuple(resizes)

    def _spare_quota(self) -> None:
        """Give up what has no quota beside the units that start, where it had quota without them."""
        before, after = self._usage_before(), self.profile.usage
        if before is None or after is None:
            return
        after = after.copy()
        for unit in self.units:
            account = self._account(unit)
            if account is None:
                continue

            def has_quota(level: int, unit: Unit = unit, account: str = account) -> bool:
                more = charge(unit, level)
                return after.refusal(account, more) is None or before.refusal(account, more) is not None

            level = bisect_left(range(_steps(unit)), True, key=has_quota)
            self.levels[unit.id] = max(level, _leaving(unit))
            for usage in (before, after):
                usage.charge(account, charge(unit, level))

    def _spare_room(self, name: str) -> None:
        """Give up what is in the way of the units that start in a member."""
        here = [unit for unit in self.units if unit.member == name]
        at_first = {unit.id: self.levels[unit.id] for unit in here}
        if self.layout(name, at_first) is not None:
            return
        levels = {unit.id: _steps(unit) for unit in here}
        for unit in here:
            if self._spent():
                break
            low = at_first[unit.id]

            def has_room(more: int, key: str = unit.id, low: int = low) -> bool:
                return self.layout(name, {**levels, key: low + more}) is not None

            levels[unit.id] = low + bisect_left(range(_steps(unit) - low), True, key=has_room)
        self.levels |= levels

    def _spent(self) -> bool:
        if self._tries <= 0:
            self.bounds.add("size_tries")
        return self._tries <= 0

    def layout(self, name: str, levels: Mapping[str, int]) -> Layout | None:
        """How all lies in a member once units have given up so many steps; None where one that starts has no place."""
        self._tries -= 1
        found = self._laid_out(name, levels, [pair for pair in self.starts if pair[1] == name])
        return None if set(found.lost.get(name, ())) - self._situation.lost else found

    def _laid_out(self, name: str, levels: Mapping[str, int], starts: Sequence[tuple[Candidate, str]]) -> Layout:
        space = self._situation.space
        if name not in self._local:
            held = self._snapshot.backlog.holding.values()
            units = {unit.id: unit for unit in held if unit.member == name}
            self._local[name] = Snapshot(None, units, {name: self._snapshot.members[name]})
        whole = self._local[name]
        local = without(whole, {key: level for key, level in levels.items() if key in whole.units})
        coming = [(unit.id, name, committed(unit, space)) for unit in local.backlog.unseen.values()]
        coming += [(candidate.unit.id, name, space.shapes[candidate.shape]) for candidate, _ in starts]
        return lay_out({name: MemberRoom.of(local.members[name], space)}, coming, space)

    def _usage_before(self) -> Usage | None:
        """The quota that is used, without any surplus, before anything starts."""
        if self._situation.usage is None:
            return None
        usage = self._situation.usage.copy()
        for candidate, _ in self._situation.first:
            if candidate.account is not None:
                usage.charge(candidate.account, candidate.request, -1)
        return usage

    def charge(self, usage: Usage | None) -> None:
        """Charge every surplus: also what is given up, until its pods are gone."""
        for unit in self.units if usage is not None else ():
            account = self._account(unit)
            if account is not None and usage is not None:
                usage.charge(account, charge(unit, 0))

    def room(self, name: str) -> MemberRoom:
        """The room of a member beside all that starts and every surplus, less the claims."""
        layout = self._laid_out(name, {}, [pair for pair in self.starts if pair[1] == name])
        room, space = layout.rooms[name], self._situation.space
        for candidate, member in self._situation.unstarted_claims:
            if member == name:
                room.hold(space.shapes[candidate.shape], space.devices)
        return room

    def _account(self, unit: Unit) -> str | None:
        tree = self._snapshot.tree
        return account_of(tree, unit) if tree is not None else None


def charge(unit: Unit, level: int) -> Amounts:
    """The charge of the surplus that a unit has left once it has given up so many steps."""
    least = smaller(unit, _steps(unit))
    return request_of(smaller(unit, level)).minus(request_of(least))


def _steps(unit: Unit) -> int:
    """The steps from its size down to its least."""
    return len(unit.sizes.surplus) if unit.sizes is not None else 0


def _leaving(unit: Unit) -> int:
    """The steps that it was told to give up before."""
    return unit.sizes.leaving if unit.sizes is not None else 0


def _replicas(had: Unit, has: Unit) -> Replicas:
    """The replicas of the components that have another number than before."""
    pairs = zip(had.components, has.components, strict=True)
    return tuple((after.name, after.replicas) for before, after in pairs if before.replicas != after.replicas)
