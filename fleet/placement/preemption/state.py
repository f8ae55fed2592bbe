"""What victims are looked for in: who runs and may be evicted, who leaves, what comes or is kept, how quota is used.

It changes while a plan finds who must leave for one gang after another. What a member would have free is kept until
somebody more leaves it, or more of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy

from fleet.model.amounts import Amounts
from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.space import Shape, Space, Vector
from fleet.placement.preemption.runners import Able, Work
from fleet.placement.preemption.vacancy import Vacancy
from fleet.quota.usage import Usage


class Scene:
    """See the module. `coming`: (unit, member, shape) of pods that are committed but not seen; `usage`: what is used
    once the plan so far is committed, what is kept included; it becomes the scene's own."""

    def __init__(
        self,
        members: Mapping[str, Member],
        space: Space,
        coming: Iterable[tuple[str, str, Shape]],
        kept: Iterable[tuple[Candidate, str]],
        usage: Usage,
    ) -> None:
        self.members = members
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

    def fork(self) -> Scene:
        """Another one that changes by itself from now on."""
        other = copy(self)
        other.usage = self.usage.copy()
        other.kept = {member: list(shapes) for member, shapes in self.kept.items()}
        other.leaving = {member: list(units) for member, units in self.leaving.items()}
        other._vacancies = dict(self._vacancies)
        return other

    def leave(self, work: Work) -> None:
        """One of those that this plan evicts."""
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
        """The sum over its nodes, nobody having left."""
        found = self._free.get(member)
        if found is None:
            total = dict.fromkeys(self.space.resources, 0)
            for pool in self.members[member].pools:
                for amounts, nodes in pool.free:
                    for name, amount in amounts.items_:
                        if name in total:
                            total[name] += max(0, amount) * max(0, nodes)
            found = self._free[member] = tuple(total[name] for name in self.space.resources)
        return found

    def able(self, able: Able, member: str) -> Vector:
        """At most what would be free there, with all these and all that leave gone."""
        free = [have + more for have, more in zip(self.free(member), able.sum(member), strict=True)]
        index = self.space.index
        for unit in self.leaving.get(member, ()):
            for component in unit.components:
                for name, amount in component.requests.items_:
                    if name in index:
                        free[index[name]] += amount * component.replicas
        return tuple(free)
