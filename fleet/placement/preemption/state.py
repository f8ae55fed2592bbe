"""The state that victims are looked for in: units that leave, pods that come, room that is kept, quota that is used.

It changes while a plan finds the victims of one preemptor after another. The free room of a member is remembered until
another unit leaves it, or more of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy

from fleet.model.amounts import Amounts
from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Shape, Space, Vector
from fleet.placement.preemption.runners import Able, Work, holds
from fleet.placement.preemption.vacancy import Vacancy
from fleet.quota.usage import Usage


class State:
    """`rooms`: the members as the inventory shows them; `coming`: (unit, member, shape) of pods that are committed but
    not seen; `usage`: once the plan so far is committed, kept room included; it becomes the state's own."""

    def __init__(
        self,
        members: Mapping[str, Member],
        rooms: Mapping[str, MemberRoom],
        space: Space,
        coming: Iterable[tuple[str, str, Shape]],
        kept: Iterable[tuple[Candidate, str]],
        usage: Usage,
    ) -> None:
        self.members = members
        self.rooms = rooms
        self.space = space
        self.usage = usage
        self.coming: dict[str, list[tuple[str, str, Shape]]] = {}
        self.kept: dict[str, list[Shape]] = {}
        self.leaving: dict[str, list[Unit]] = {}
        self._vacancies: dict[str, Vacancy] = {}
        self._read: dict[str, Vacancy] = {}  # the first of each member
        self._free: dict[str, Vector] = {}
        for item in coming:
            self.coming.setdefault(item[1], []).append(item)
        for candidate, member in kept:
            self.kept.setdefault(member, []).append(space.shapes[candidate.shape])

    def fork(self) -> State:
        """Another one that changes by itself from now on."""
        other = copy(self)
        other.usage = self.usage.copy()
        other.kept = {member: list(shapes) for member, shapes in self.kept.items()}
        other.leaving = {member: list(units) for member, units in self.leaving.items()}
        other._vacancies = dict(self._vacancies)
        return other

    def leave(self, work: Work) -> None:
        """Let a unit go that this plan evicts."""
        self.leaving_already(work.unit, work.account, work.request)

    def leaving_already(self, unit: Unit, account: str | None, request: Amounts) -> None:
        if unit.member is not None:
            self.leaving.setdefault(unit.member, []).append(unit)
            self._vacancies.pop(unit.member, None)
        if account is not None:
            self.usage.charge(account, request, -1)

    def keep(self, candidate: Candidate, member: str) -> None:
        self.kept.setdefault(member, []).append(self.space.shapes[candidate.shape])
        self._vacancies.pop(member, None)
        if candidate.account is not None:
            self.usage.charge(candidate.account, candidate.request)

    def vacancy(self, member: str) -> Vacancy:
        found = self._vacancies.get(member)
        if found is None:
            found = self._vacancies[member] = Vacancy(
                self.members[member], self.space, self.leaving.get(member, ()), self.coming.get(member, ()),
                self.kept.get(member, ()), self._read.get(member),
            )  # fmt: skip
            self._read.setdefault(member, found)
        return found

    def free(self, member: str) -> Vector:
        """The sum over its nodes, before any unit has left."""
        found = self._free.get(member)
        if found is None:
            totals = [pool.total for pool in self.rooms[member].pools if not pool.potential]
            nothing = (0,) * len(self.space.resources)
            found = self._free[member] = tuple(map(sum, zip(nothing, *totals, strict=True)))
        return found

    def able(self, able: Able, member: str) -> Vector:
        """At most what would be free there, with all this work and all units that leave gone."""
        leaving = (holds(unit, self.space) for unit in self.leaving.get(member, ()))
        return tuple(map(sum, zip(self.free(member), able.sum(member), *leaving, strict=True)))
