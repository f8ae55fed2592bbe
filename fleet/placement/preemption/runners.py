"""Who runs and may be evicted, sorted so that it costs little to ask for one preemptor after another.

Whether a gang may evict another depends on the leaf, tier and priority of that one: so they are kept in kinds alike in
those, with what they hold in each member added up, and a preemptor's own are put together from whole kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.packing.space import Space, Vector
from fleet.quota.tiers import Tier


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A gang that runs and may be evicted; `lost` is what that throws away."""

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
    """Those alike in leaf, tier and priority: by member and id, and what all of a member hold together."""

    members: dict[str, dict[str, Work]]
    sums: dict[str, list[int]]


class Runners:
    """All of them. Whoever is evicted is removed."""

    def __init__(self, works: Iterable[Work], space: Space) -> None:
        self._index = space.index
        self._kinds: dict[tuple[str | None, Tier, int], _Kind] = {}
        for work in works:
            self.put(work)

    def put(self, work: Work) -> None:
        kind = self._kinds.setdefault((work.unit.leaf, work.tier, work.unit.priority), _Kind({}, {}))
        member = work.unit.member or ""
        kind.members.setdefault(member, {})[work.unit.id] = work
        self._add(kind.sums.setdefault(member, [0] * len(self._index)), work.unit, 1)

    def remove(self, work: Work) -> None:
        kind = self._kinds[work.unit.leaf, work.tier, work.unit.priority]
        member = work.unit.member or ""
        del kind.members[member][work.unit.id]
        self._add(kind.sums[member], work.unit, -1)

    def able(self, may: Callable[[Work], bool]) -> Able:
        """Those for whom `may` holds, as it does for all of one leaf, tier and priority or for none."""
        firsts = ((kind, next(self._of(kind), None)) for kind in self._kinds.values())
        return Able([kind for kind, first in firsts if first is not None and may(first)], len(self._index))

    def _add(self, total: list[int], unit: Unit, sign: int) -> None:
        for component in unit.components:
            for name, amount in component.requests.items_:
                if name in self._index:
                    total[self._index[name]] += sign * amount * component.replicas

    @staticmethod
    def _of(kind: _Kind) -> Iterator[Work]:
        return (work for there in kind.members.values() for work in there.values())


class Able:
    """Those that one preemptor may evict, as long as nobody is removed."""

    def __init__(self, kinds: list[_Kind], resources: int) -> None:
        self._kinds = kinds
        self._resources = resources

    def __iter__(self) -> Iterator[Work]:
        return (work for kind in self._kinds for there in kind.members.values() for work in there.values())

    def __contains__(self, work: Work) -> bool:
        return any(work.unit.id in kind.members.get(work.unit.member or "", ()) for kind in self._kinds)

    def at(self, member: str) -> list[Work]:
        return [work for kind in self._kinds if member in kind.members for work in kind.members[member].values()]

    def sum(self, member: str) -> Vector:
        """What they hold of each resource there."""
        sums = [kind.sums[member] for kind in self._kinds if member in kind.sums]
        return tuple(map(sum, zip(*sums, strict=True))) if sums else (0,) * self._resources
