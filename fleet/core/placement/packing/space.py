"""The resources, claims and levels of one decision, and gangs as shapes over them.

Names are turned into numbers once for each distinct gang, so that packing adds and compares small tuples. Gangs that
ask for the same have one shape, whatever their components are called. Users write the names, so none of them makes the
numbers of others wider: claims that the same nodes take are one claim, and all resources that no node has share one
place in a vector, of which there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.core.model.amounts import Amounts
from fleet.core.model.effort import Effort
from fleet.core.model.matching import PoolIndex, domain_of, labels_of, pool_takes
from fleet.core.model.member import Member, Pool, Taint
from fleet.core.model.nesting import bundle_of as nested
from fleet.core.model.nesting import innermost, whole_gang
from fleet.core.model.refine import UNBOUNDED, Need, Vector, slots
from fleet.core.model.rule import Rules
from fleet.core.model.unit import Component, NodeClaim, Unit
from fleet.core.placement.packing.levels import LevelNumbers, Levels, PartBundle

__all__ = ["UNBOUNDED", "GangPart", "Need", "Shape", "Space", "Vector", "confined", "levels_of", "slots"]


@dataclass(frozen=True, slots=True)
class GangPart:
    """Equal pods of a gang: how many, what each needs, and which claim they carry. `levels`: the numbers of the levels
    of its Space within one domain of which the whole gang lies, the same in all its parts; () is anywhere. `absent`:
    what each asks for of resources that no node has, which stand in `need` as the last resource. `bundle`: the whole
    gang with the bundles of its other rules, the same in all its parts; None where it has no others."""

    replicas: int
    need: Need
    node_claim: int
    levels: Levels = ()
    absent: tuple[tuple[str, int], ...] = ()
    bundle: PartBundle | None = None


Shape = tuple[GangPart, ...]  # of a gang: its parts, largest first


def levels_of(shape: Shape) -> Levels:
    """The levels within one domain of which a gang lies whole."""
    return shape[0].levels if shape else ()


def bundle_of(shape: Shape) -> PartBundle | None:
    """The gang with the bundles of those of its rules that are not about all of it as a whole."""
    return shape[0].bundle if shape else None


def confined(shape: Shape) -> bool:
    """Whether a rule keeps the gang from using all nodes of a member alike."""
    return bool(levels_of(shape)) or bundle_of(shape) is not None


_PartKey = tuple[Need, int, tuple[tuple[str, int], ...], int]  # need, claim, absent, innermost bundle
_ABSENT = "(a resource that no node has)"
_Labelled = tuple[tuple[tuple[str, str], ...], tuple[Taint, ...]]  # the labels and taints of a pool


def _labelled(pool: Pool) -> _Labelled:
    return labels_of(pool), pool.taints


class Space:
    """The resources, claims and levels of one decision, and shapes by number. Resources are ordered devices first
    (names with a "/"), then by name, so that comparing vectors compares free devices first."""

    def __init__(
        self,
        gangs: Iterable[tuple[Component, ...]],
        rules: Iterable[Rules] = (),
        members: Iterable[Member] | None = None,
    ) -> None:
        """`gangs`: the components of every unit that this decision may ask about, each distinct one at least once;
        `rules`: those of each of them; `members`: all that this decision is about. None: not known, so no claims are
        alike, and any node may have any resource."""
        names: set[str] = set()
        claims: dict[NodeClaim, None] = {NodeClaim(): None}
        for components in gangs:
            for component in components:
                names.update([name for name, _ in component.requests.items_])
                claims.setdefault(component.claim)
        pools = None if members is None else [pool for one in members for pool in (*one.pools, *one.potential)]
        offered = names if pools is None else names & _offered(pools)
        ordered = sorted(offered, key=_devices_first)
        self.resources: tuple[str, ...] = (*ordered, _ABSENT) if len(offered) < len(names) else tuple(ordered)
        self.devices = sum("/" in name for name in offered)
        """How many of the first resources are devices."""
        self.index: Mapping[str, int] = {name: number for number, name in enumerate(ordered)}
        self.node_claims: tuple[NodeClaim, ...]
        self._node_claim_index: Mapping[NodeClaim, int]
        self._takes: dict[_Labelled, tuple[bool, ...]] = {}
        if pools is None:
            self.node_claims, self._node_claim_index = (
                tuple(claims),
                {claim: number for number, claim in enumerate(claims)},
            )
        else:
            self._number(claims, list(dict.fromkeys(map(_labelled, pools))))
        self._levels = LevelNumbers([rule for one in rules for rule in one], pools or ())
        self.levels = self._levels.names
        self.shapes: list[Shape] = []
        self.effort = Effort()
        self._by_shape: dict[Shape, int] = {}

    def _number(self, claims: Iterable[NodeClaim], pools: Sequence[_Labelled]) -> None:
        """Number the claims. Claims that the same nodes take, and that the same taints repel, have one number."""
        index = PoolIndex(pools)
        alike: dict[tuple[int, object], int] = {}
        numbers: dict[NodeClaim, int] = {}
        first: list[NodeClaim] = []
        takes: list[int] = []
        for claim in claims:
            able = index.takes(claim)
            numbers[claim] = number = alike.setdefault((able, index.repellers(claim.tolerations)), len(alike))
            if number == len(first):
                first.append(claim)
                takes.append(able)
        self.node_claims, self._node_claim_index = tuple(first), numbers
        for place, pool in enumerate(pools):
            self._takes[pool] = tuple([bool(able >> place & 1) for able in takes])

    @staticmethod
    def of(units: Sequence[Unit]) -> Space:
        """The space of these units, whatever the members have."""
        return Space([unit.components for unit in units], [unit.rules for unit in units])

    def number(self, components: Iterable[Component], rules: Rules = ()) -> int:
        """The number of a gang's shape; gangs that differ in names of components only share it."""
        shape = self.shape(components, rules)
        number = self._by_shape.setdefault(shape, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(shape)
        return number

    def shape_of(self, unit: Unit) -> Shape:
        """The shape of the whole unit."""
        return self.shape(unit.components, unit.rules)

    def shape(self, components: Iterable[Component], rules: Rules = ()) -> Shape:
        components = list(components)
        whole, outer = whole_gang(nested(components, rules)) if rules else ((), None)
        homes = innermost(outer) if outer is not None else {}
        keys = [self._key(component, homes.get(place, -1)) for place, component in enumerate(components)]
        parts: dict[_PartKey, int] = {}
        for component, key in zip(components, keys, strict=True):
            parts[key] = parts.get(key, 0) + max(0, component.replicas)
        order = sorted([key for key, pods in parts.items() if pods], key=self._size_of, reverse=True)
        levels = tuple([level for rule in whole for level in self._levels.of(rule)])
        bundle = None
        if outer is not None:
            numbers = {key: number for number, key in enumerate(order)}
            bundle = self._levels.bundle(outer, {place: numbers.get(key, -1) for place, key in enumerate(keys)})
        return tuple([GangPart(parts[key], *key[:2], levels, key[2], bundle) for key in order])

    def _key(self, component: Component, home: int) -> _PartKey:
        """What tells the pods of a component from those of others. `home`: their innermost bundle."""
        wanted = [(name, amount) for name, amount in component.requests.items_ if amount > 0]
        need = sorted([(self.index[name], amount) for name, amount in wanted if name in self.index])
        absent = tuple([item for item in wanted if item[0] not in self.index])
        if absent:
            need.append((len(self.index), 1))
        return tuple(need), self._node_claim_index[component.claim], absent, home

    def _size_of(self, key: _PartKey) -> tuple[object, ...]:
        need, claim, absent, home = key
        return self.size(need), claim, absent, home

    def pod_request(self, part: GangPart) -> dict[str, int]:
        """Return what one pod asks for by name, devices first."""
        known = [(self.resources[index], amount) for index, amount in part.need if index < len(self.index)]
        absent = part.absent if len(known) < len(part.need) else ()
        return dict(sorted((*known, *absent), key=lambda item: _devices_first(item[0])))

    def vector(self, amounts: Amounts) -> Vector:
        """Return the amounts of this space's resources; others are dropped."""
        have = dict(amounts.items_)
        return tuple([have.get(name, 0) for name in self.resources])

    def traits(self, pool: Pool) -> tuple[tuple[bool, ...], tuple[str, ...]]:
        """Return which claims may use the nodes of a pool, and the domain of each level in which they lie."""
        labelled = _labelled(pool)
        takes = self._takes.get(labelled)
        if takes is None:
            takes = self._takes[labelled] = tuple([pool_takes(pool, claim) for claim in self.node_claims])
        return takes, tuple([domain_of(pool, level) for level in self.levels])

    def size(self, need: Need) -> Vector:
        vector = [0] * len(self.resources)
        for index, amount in need:
            vector[index] = amount
        return tuple(vector)


def _devices_first(name: str) -> tuple[bool, str]:
    return "/" not in name, name


def _offered(pools: Iterable[Pool]) -> set[str]:
    """The resources that a node of these pools has, free or not."""
    names: set[str] = set()
    for pool in pools:
        names.update([name for name, _ in pool.allocatable.items_])
        for free, _ in pool.free:
            names.update([name for name, _ in free.items_])
    return names
