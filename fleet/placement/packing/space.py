"""The resources, claims and topologies of one decision, and gangs as shapes over them.

Names are turned into numbers once for each distinct gang, so that packing adds and compares small tuples. Gangs that
ask for the same have one shape, whatever their components are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.matching import domain_of, pool_takes
from fleet.model.member import Pool
from fleet.model.refine import UNBOUNDED, Need, Vector, slots
from fleet.model.unit import Component, NodeClaim

__all__ = ["UNBOUNDED", "Need", "Part", "Shape", "Space", "Vector", "slots"]


@dataclass(frozen=True, slots=True)
class Part:
    """Equal pods of a gang: how many, what each needs, and which claim they carry. `topology` is the gang's, the same
    in all its parts: 0 is anywhere, n that the whole gang lies within one value of the n-th topology of its Space."""

    replicas: int
    need: Need
    claim: int
    topology: int = 0


Shape = tuple[Part, ...]  # of a gang: its parts, largest first


class Space:
    """The resources, claims and topologies of one decision, and shapes by number. Resources are ordered devices first
    (names with a "/"), then by name, so that comparing vectors compares free devices first."""

    def __init__(self, gangs: Iterable[tuple[Component, ...]], topologies: Iterable[str] = ()) -> None:
        """`gangs`: the components of every unit that this decision may ask about, each distinct one at least once;
        `topologies`: the labels that any of them must lie within one value of."""
        names: set[str] = set()
        claims: dict[NodeClaim, int] = {NodeClaim(): 0}
        for components in gangs:
            for component in components:
                names.update(component.requests)
                claims.setdefault(component.claim, len(claims))
        self.resources: tuple[str, ...] = tuple(sorted(names, key=lambda name: ("/" not in name, name)))
        self.index: Mapping[str, int] = {name: number for number, name in enumerate(self.resources)}
        self.claims: tuple[NodeClaim, ...] = tuple(claims)
        self.topologies: tuple[str, ...] = tuple(sorted({name for name in topologies if name}))
        self._claim_index = claims
        self._topology_index = {name: number for number, name in enumerate(self.topologies, 1)} | {"": 0}
        self.shapes: list[Shape] = []
        self.reached: set[str] = set()  # the names of bounds that ended a search, for the certificate
        self._by_shape: dict[Shape, int] = {}

    @property
    def devices(self) -> int:
        """How many of the first resources are devices."""
        return sum("/" in name for name in self.resources)

    def number(self, components: Iterable[Component], topology: str = "") -> int:
        """The number of a gang's shape; gangs that differ in names of components only share it."""
        shape = self.shape(components, topology)
        number = self._by_shape.setdefault(shape, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(shape)
        return number

    def shape(self, components: Iterable[Component], topology: str = "") -> Shape:
        within = self._topology_index[topology]
        parts: dict[tuple[Need, int], int] = {}
        for component in components:
            wanted = ((self.index[name], amount) for name, amount in component.requests.items_ if amount > 0)
            key = (tuple(sorted(wanted)), self._claim_index[component.claim])
            parts[key] = parts.get(key, 0) + max(0, component.replicas)
        whole = [Part(replicas, need, claim, within) for (need, claim), replicas in parts.items() if replicas]
        return tuple(sorted(whole, key=lambda part: (self.size(part.need), part.claim), reverse=True))

    def vector(self, amounts: Amounts) -> Vector:
        """Return the amounts of this space's resources; others are dropped."""
        have = dict(amounts.items_)
        return tuple([have.get(name, 0) for name in self.resources])

    def traits(self, pool: Pool) -> tuple[tuple[bool, ...], tuple[str, ...]]:
        """Return which claims may use the nodes of a pool, and the domain of each topology in which they lie."""
        takes = tuple([pool_takes(pool, claim) for claim in self.claims])
        return takes, tuple([domain_of(pool, topology) for topology in self.topologies])

    def size(self, need: Need) -> Vector:
        vector = [0] * len(self.resources)
        for index, amount in need:
            vector[index] = amount
        return tuple(vector)
