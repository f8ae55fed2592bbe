"""The resources, claims and topologies of one decision, and gangs as shapes over them.

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
from fleet.core.model.matching import PoolIndex, domain_of, pool_takes
from fleet.core.model.member import Member, Pool, Taint
from fleet.core.model.refine import UNBOUNDED, Need, Vector, slots
from fleet.core.model.unit import Component, NodeClaim

__all__ = ["UNBOUNDED", "GangPart", "Need", "Shape", "Space", "Vector", "slots"]


@dataclass(frozen=True, slots=True)
class GangPart:
    """Equal pods of a gang: how many, what each needs, and which claim they carry. `topology` is the gang's, the same
    in all its parts: 0 is anywhere, n that the whole gang lies within one value of the n-th topology of its Space.
    `absent`: what each asks for of resources that no node has, which stand in `need` as the last resource."""

    replicas: int
    need: Need
    node_claim: int
    topology: int = 0
    absent: tuple[tuple[str, int], ...] = ()


Shape = tuple[GangPart, ...]  # of a gang: its parts, largest first


_ABSENT = "(a resource that no node has)"
_Labelled = tuple[tuple[tuple[str, str], ...], tuple[Taint, ...]]  # the labels and taints of a pool


def _labelled(pool: Pool) -> _Labelled:
    return pool.labels, pool.taints


class Space:
    """The resources, claims and topologies of one decision, and shapes by number. Resources are ordered devices first
    (names with a "/"), then by name, so that comparing vectors compares free devices first."""

    def __init__(
        self,
        gangs: Iterable[tuple[Component, ...]],
        topologies: Iterable[str] = (),
        members: Iterable[Member] | None = None,
    ) -> None:
        """`gangs`: the components of every unit that this decision may ask about, each distinct one at least once;
        `topologies`: the labels that any of them must lie within one value of; `members`: all that this decision is
        about. None: not known, so no claims are alike, and any node may have any resource."""
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
        self.topologies: tuple[str, ...] = tuple(sorted({name for name in topologies if name}))
        self._topology_index = {name: number for number, name in enumerate(self.topologies, 1)} | {"": 0}
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

    def number(self, components: Iterable[Component], topology: str = "") -> int:
        """The number of a gang's shape; gangs that differ in names of components only share it."""
        shape = self.shape(components, topology)
        number = self._by_shape.setdefault(shape, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(shape)
        return number

    def shape(self, components: Iterable[Component], topology: str = "") -> Shape:
        within = self._topology_index[topology]
        parts: dict[tuple[Need, int, tuple[tuple[str, int], ...]], int] = {}
        for component in components:
            wanted = [(name, amount) for name, amount in component.requests.items_ if amount > 0]
            need = sorted([(self.index[name], amount) for name, amount in wanted if name in self.index])
            absent = tuple([item for item in wanted if item[0] not in self.index])
            if absent:
                need.append((len(self.index), 1))
            key = (tuple(need), self._node_claim_index[component.claim], absent)
            parts[key] = parts.get(key, 0) + max(0, component.replicas)
        whole = [
            GangPart(replicas, need, claim, within, absent)
            for (need, claim, absent), replicas in parts.items()
            if replicas
        ]
        return tuple(sorted(whole, key=lambda part: (self.size(part.need), part.node_claim, part.absent), reverse=True))

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
        """Return which claims may use the nodes of a pool, and the domain of each topology in which they lie."""
        labelled = _labelled(pool)
        takes = self._takes.get(labelled)
        if takes is None:
            takes = self._takes[labelled] = tuple([pool_takes(pool, claim) for claim in self.node_claims])
        return takes, tuple([domain_of(pool, topology) for topology in self.topologies])

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
