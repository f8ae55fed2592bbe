"""The state in which victims are searched: the running units with their ranks, units that leave, pods that come, room
that is kept, quota that is used.

Whether a gang may evict another depends on the leaf, tier and priority of the victim. So units alike in these are one
kind, and the amounts that the units of a kind hold in each member are added up. The victims of a preemptor are whole
kinds.

The state changes while a plan finds the victims of one preemptor after another. The free room of a member is remembered
until another unit leaves it, or more of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Shape, Space, Vector
from fleet.core.placement.preemption.vacancy import Inventory, Vacancy
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import Usage

POLICY = "preempt-policy"  # attribute of a leaf: LOWER, AnyPriority, Never; else equal or lower priority
LOWER = "PreemptLowerPriority"  # lower priority only, of the own leaf too


def may_evict(tree: QuotaTree, unit: Unit, tier: Tier, victim: Unit, victims: Tier) -> bool:
    """Whether the rank of a unit lets it evict the victim; the age of the victim does not count here."""
    if unit.leaf is None or victim.leaf is None or not victim.preemptible:
        return False
    policy = policy_of(tree, unit.leaf)
    if policy == LOWER and victim.priority >= unit.priority:
        return False
    if unit.leaf == victim.leaf:
        return policy == LOWER
    if policy == "Never" or tier >= victims:
        return False
    return policy in (LOWER, "AnyPriority") or victim.priority <= unit.priority


def policy_of(tree: QuotaTree, leaf: str) -> str:
    """The preemption policy of a leaf, as its attribute says; of a leaf that is gone, the policy to evict nothing."""
    node = tree.nodes.get(leaf)
    return node.attributes.get(POLICY, "") if node is not None else "Never"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A gang that runs and may be evicted; `lost` is the work that this throws away."""

    unit: Unit
    tier: Tier
    lost: int
    request: Amounts
    account: str | None

    @property
    def borrows(self) -> bool:
        return self.tier is Tier.BORROWED


Lacking = Sequence[tuple[str, str, int]]  # quota node, resource, and how much of it must leave there


def freeing(usage: Usage, lacking: Lacking, works: Iterable[Work]) -> dict[str, tuple[int, ...]]:
    """By id, the amounts of what is lacking that each unit frees; units that free nothing of it are left out."""
    amounts: dict[str, tuple[int, ...]] = {}
    for work in works if lacking else ():
        path = usage.path(work.account) if work.account is not None else ()
        freed = tuple(work.request[resource] if node in path else 0 for node, resource, _ in lacking)
        if any(freed):
            amounts[work.unit.id] = freed
    return amounts


@dataclass(slots=True)
class _Kind:
    """Work alike in leaf, tier and priority: by member and id, and what all of a member holds together."""

    members: dict[str, dict[str, Work]] = field(default_factory=dict)
    sums: dict[str, list[int]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Work]:
        return (work for there in self.members.values() for work in there.values())


class Runners:
    """All work that may be evicted. A victim is removed."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._kinds: dict[tuple[str | None, Tier, int], _Kind] = {}

    def put(self, work: Work) -> None:
        self._there(work, 1)[work.unit.id] = work

    def remove(self, work: Work) -> None:
        del self._there(work, -1)[work.unit.id]

    def able(self, may: Callable[[Work], bool]) -> EvictableWork:
        """The work that `may` be evicted; `may` answers the same for all work of one leaf, tier and priority."""
        firsts = ((kind, next(iter(kind), None)) for kind in self._kinds.values())
        nothing = (0,) * len(self._space.resources)
        return EvictableWork([kind for kind, first in firsts if first is not None and may(first)], nothing)

    def _there(self, work: Work, sign: int) -> dict[str, Work]:
        """The work of its kind and member, whose sum counts it from now on, or no more."""
        unit, member = work.unit, work.unit.member or ""
        kind = self._kinds.setdefault((unit.leaf, work.tier, unit.priority), _Kind())
        total = kind.sums.setdefault(member, [0] * len(self._space.resources))
        for index, amount in enumerate(holds(unit, self._space)):
            total[index] += sign * amount
        return kind.members.setdefault(member, {})


class EvictableWork:
    """The work that one preemptor may evict, as long as none is removed."""

    def __init__(self, kinds: list[_Kind], nothing: Vector) -> None:
        self._kinds = kinds
        self._nothing = nothing

    def __iter__(self) -> Iterator[Work]:
        return (work for kind in self._kinds for work in kind)

    def at(self, member: str) -> list[Work]:
        return [work for kind in self._kinds for work in kind.members.get(member, {}).values()]

    def sum(self, member: str) -> Vector:
        """The amount of each resource that this work holds there."""
        sums = (kind.sums[member] for kind in self._kinds if member in kind.sums)
        return tuple(map(sum, zip(self._nothing, *sums, strict=True)))


def holds(unit: Unit, space: Space) -> Vector:
    """The sum of the requests of all pods of a unit."""
    total = [0] * len(space.resources)
    for component in unit.components:
        for name, amount in component.requests.items_:
            if name in space.index:
                total[space.index[name]] += amount * component.replicas
    return tuple(total)


class PreemptionState:
    """`rooms`: the members as the inventory shows them; `coming`: (unit, member, shape) of pods that are committed but
    not seen; `claims`: the gangs for which room is kept; `usage`: once the plan so far is committed, kept room
    included."""

    def __init__(
        self,
        members: Mapping[str, Member],
        rooms: Mapping[str, MemberRoom],
        space: Space,
        coming: Iterable[tuple[str, str, Shape]],
        claims: Iterable[tuple[Candidate, str]],
        usage: Usage,
    ) -> None:
        self.members = members
        self.space = space
        self.usage = usage
        self.coming: dict[str, list[tuple[str, str, Shape]]] = {}
        self.claim_shapes: dict[str, list[Shape]] = {}
        self.leaving: dict[str, list[Unit]] = {}
        self._rooms = rooms
        self._inventories: dict[str, Inventory] = {}
        self._vacancies: dict[str, Vacancy] = {}
        for item in coming:
            self.coming.setdefault(item[1], []).append(item)
        for candidate, member in claims:
            self.claim_shapes.setdefault(member, []).append(space.shapes[candidate.shape])

    def fork(self) -> PreemptionState:
        """Another state, which changes by itself from now on."""
        other = copy(self)
        other.usage = self.usage.copy()
        other.claim_shapes = {member: list(shapes) for member, shapes in self.claim_shapes.items()}
        other.leaving = {member: list(units) for member, units in self.leaving.items()}
        other._vacancies = dict(self._vacancies)
        return other

    def leave(self, work: Work) -> None:
        """Count on a unit as gone."""
        if work.unit.member is not None:
            self.leaving.setdefault(work.unit.member, []).append(work.unit)
            self._vacancies.pop(work.unit.member, None)
        if work.account is not None:
            self.usage.charge(work.account, work.request, -1)

    def keep(self, candidate: Candidate, member: str) -> None:
        """Keep quota and room for a gang."""
        self.claim_shapes.setdefault(member, []).append(self.space.shapes[candidate.shape])
        self._vacancies.pop(member, None)
        if candidate.account is not None:
            self.usage.charge(candidate.account, candidate.request)

    def vacancy(self, member: str) -> Vacancy:
        vacancy = self._vacancies.get(member)
        if vacancy is None:
            inventory = self._inventories.get(member)
            if inventory is None:
                inventory = Inventory(self.members[member], self._rooms[member], self.space)
                self._inventories[member] = inventory
            leaving, kept = self.leaving.get(member, ()), self.claim_shapes.get(member, ())
            vacancy = self._vacancies[member] = Vacancy(inventory, leaving, self.coming.get(member, ()), kept)
        return vacancy

    def free(self, member: str) -> Vector:
        """The sum over the nodes of a member, before any unit has left."""
        totals = [pool.total for pool in self._rooms[member].pools if not pool.potential]
        return tuple(map(sum, zip((0,) * len(self.space.resources), *totals, strict=True)))
