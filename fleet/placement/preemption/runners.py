"""The running units that may be evicted, sorted so that it costs little to ask for one preemptor after another.

Whether a gang may evict another depends on the leaf, tier and priority of the victim. So units alike in these are one
kind, and what the units of a kind hold in each member is added up: the victims of a preemptor are whole kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.packing.space import Space, Vector
from fleet.quota.tiers import Tier


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

    def able(self, may: Callable[[Work], bool]) -> Able:
        """The work for which `may` holds, as it does for all work of one leaf, tier and priority or for none."""
        firsts = ((kind, next(iter(kind), None)) for kind in self._kinds.values())
        nothing = (0,) * len(self._space.resources)
        return Able([kind for kind, first in firsts if first is not None and may(first)], nothing)

    def _there(self, work: Work, sign: int) -> dict[str, Work]:
        """The work of its kind and member, whose sum counts it from now on, or no more."""
        unit, member = work.unit, work.unit.member or ""
        kind = self._kinds.setdefault((unit.leaf, work.tier, unit.priority), _Kind())
        total = kind.sums.setdefault(member, [0] * len(self._space.resources))
        for index, amount in enumerate(holds(unit, self._space)):
            total[index] += sign * amount
        return kind.members.setdefault(member, {})


class Able:
    """The work that one preemptor may evict, as long as none is removed."""

    def __init__(self, kinds: list[_Kind], nothing: Vector) -> None:
        self._kinds = kinds
        self._nothing = nothing

    def __iter__(self) -> Iterator[Work]:
        return (work for kind in self._kinds for work in kind)

    def __contains__(self, work: Work) -> bool:
        return any(work.unit.id in kind.members.get(work.unit.member or "", ()) for kind in self._kinds)

    def at(self, member: str) -> list[Work]:
        return [work for kind in self._kinds for work in kind.members.get(member, {}).values()]

    def sum(self, member: str) -> Vector:
        """What it holds of each resource there."""
        sums = (kind.sums[member] for kind in self._kinds if member in kind.sums)
        return tuple(map(sum, zip(self._nothing, *sums, strict=True)))


def holds(unit: Unit, space: Space) -> Vector:
    """What all pods of a unit ask for."""
    total = [0] * len(space.resources)
    for component in unit.components:
        for name, amount in component.requests.items_:
            if name in space.index:
                total[space.index[name]] += amount * component.replicas
    return tuple(total)
