"""Room: what is free in the members, as vectors over one list of resources, and the packer that gangs go through.

Nodes that no unit of this decision can tell apart are one pool here, whatever their labels, and resources that nobody
asks for are dropped: so a member of 300 nodes is often a dozen distinct vectors. Within a pool a gang goes to the
fullest nodes that still take it (fewest free GPUs first), so that whole nodes stay whole; largest pods go first. For
one resource in sizes that divide each other this finds a packing whenever there is one; with CPU and memory beside it,
it may miss one, and then the gang waits, which is safe.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from fleet.model.matching import pool_takes
from fleet.model.member import Member
from fleet.model.unit import Component, NodeClaim, Unit

Vector = tuple[int, ...]
UNBOUNDED = 1 << 40  # slots for a pod that asks for nothing


@dataclass(frozen=True, slots=True)
class Part:
    """Equal pods of a gang: how many, what each needs as (index of resource, amount), and which claim they carry."""

    replicas: int
    need: tuple[tuple[int, int], ...]
    claim: int


Shape = tuple[Part, ...]  # of a gang: its parts, largest first


class Space:
    """The resources and claims of one decision, and shapes by number. Resources are ordered devices first (names with
    a "/"), then by name, so that comparing vectors compares free devices first."""

    def __init__(self, gangs: Iterable[tuple[Component, ...]]) -> None:
        """`gangs`: the components of every unit that this decision may ask about, each distinct one at least once."""
        names: set[str] = set()
        claims: dict[NodeClaim, int] = {NodeClaim(): 0}
        for components in gangs:
            for component in components:
                names.update(component.requests)
                claims.setdefault(component.claim, len(claims))
        self.resources: tuple[str, ...] = tuple(sorted(names, key=lambda name: ("/" not in name, name)))
        self.index: Mapping[str, int] = {name: number for number, name in enumerate(self.resources)}
        self.claims: tuple[NodeClaim, ...] = tuple(claims)
        self._claim_index = claims
        self.shapes: list[Shape] = []
        self._by_shape: dict[Shape, int] = {}

    @property
    def devices(self) -> int:
        """How many of the first resources are devices."""
        return sum("/" in name for name in self.resources)

    def number(self, components: Iterable[Component]) -> int:
        """The number of a gang's shape; gangs that differ in names of components only share it."""
        shape = self.shape(components)
        number = self._by_shape.setdefault(shape, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(shape)
        return number

    def shape(self, components: Iterable[Component]) -> Shape:
        parts: dict[tuple[tuple[tuple[int, int], ...], int], int] = {}
        for component in components:
            wanted = ((self.index[name], amount) for name, amount in component.requests.items_ if amount > 0)
            key = (tuple(sorted(wanted)), self._claim_index[component.claim])
            parts[key] = parts.get(key, 0) + max(0, component.replicas)
        whole = [Part(replicas, need, claim) for (need, claim), replicas in parts.items() if replicas]
        return tuple(sorted(whole, key=lambda part: (self.size(part.need), part.claim), reverse=True))

    def size(self, need: tuple[tuple[int, int], ...]) -> Vector:
        vector = [0] * len(self.resources)
        for index, amount in need:
            vector[index] = amount
        return tuple(vector)


def slots(vector: Vector, need: tuple[tuple[int, int], ...]) -> int:
    """How many pods with this need one node with this free vector takes."""
    fit = UNBOUNDED
    for index, amount in need:
        count = vector[index] // amount
        if count < fit:
            fit = count
    return fit if fit > 0 else 0


class PoolRoom:
    """Nodes alike for this decision: how many have which free vector. `takes` says which claims may use them."""

    __slots__ = ("counts", "keys", "takes")

    def __init__(self, takes: tuple[bool, ...], counts: dict[Vector, int], keys: list[Vector] | None = None) -> None:
        self.takes = takes
        self.counts = counts
        self.keys = sorted(counts) if keys is None else keys

    def copy(self) -> PoolRoom:
        return PoolRoom(self.takes, dict(self.counts), list(self.keys))

    def move(self, vector: Vector, to: Vector, nodes: int) -> None:
        """`nodes` nodes that had `vector` free have `to` free now."""
        left = self.counts[vector] - nodes
        if left:
            self.counts[vector] = left
        else:
            del self.counts[vector]
            self.keys.pop(bisect_left(self.keys, vector))
        if to in self.counts:
            self.counts[to] += nodes
        else:
            self.counts[to] = nodes
            insort(self.keys, to)


@dataclass(frozen=True, slots=True)
class Fit:
    """A packing of a gang into one member: the pools after it, and how many slots of 8, 4 and 2 devices it broke."""

    pools: tuple[PoolRoom, ...]
    broken: tuple[int, int, int]


class MemberRoom:
    """Free room of one member. `version` grows with every change, so that answers about it can be kept."""

    __slots__ = ("name", "pools", "version")

    def __init__(self, name: str, pools: tuple[PoolRoom, ...]) -> None:
        self.name = name
        self.pools = pools
        self.version = 0

    @staticmethod
    def of(member: Member, space: Space) -> MemberRoom:
        """Pools that the same claims may use become one. Amounts below zero stay: nothing fits there."""
        merged: dict[tuple[bool, ...], dict[Vector, int]] = {}
        for pool in member.pools:
            takes = tuple(pool_takes(pool, claim) for claim in space.claims)
            counts = merged.setdefault(takes, {})
            for amounts, nodes in pool.free:
                if nodes > 0:
                    have = dict(amounts.items_)
                    vector = tuple(have.get(name, 0) for name in space.resources)
                    counts[vector] = counts.get(vector, 0) + nodes
        return MemberRoom(member.name, tuple(PoolRoom(takes, merged[takes]) for takes in sorted(merged)))

    @staticmethod
    def emptied(member: Member, space: Space) -> MemberRoom | None:
        """The member as if nothing ran in it, from above; None when the inventory does not say what its nodes have."""
        merged: dict[tuple[bool, ...], dict[Vector, int]] = {}
        for pool in member.pools:
            if not pool.allocatable.items_ and any(nodes > 0 for _, nodes in pool.free):
                return None
            takes = tuple(pool_takes(pool, claim) for claim in space.claims)
            counts = merged.setdefault(takes, {})
            vector = tuple(
                max([pool.allocatable[name], *(free[name] for free, nodes in pool.free if nodes > 0)])
                for name in space.resources
            )
            nodes = sum(count for _, count in pool.free if count > 0)
            if nodes:
                counts[vector] = counts.get(vector, 0) + nodes
        return MemberRoom(member.name, tuple(PoolRoom(takes, merged[takes]) for takes in sorted(merged)))

    def copy(self) -> MemberRoom:
        return MemberRoom(self.name, tuple(pool.copy() for pool in self.pools))

    def slots(self, part: Part) -> int:
        """Room for how many pods of this part alone."""
        return sum(
            count * slots(vector, part.need)
            for pool in self.pools
            if pool.takes[part.claim]
            for vector, count in pool.counts.items()
        )

    def fit(self, shape: Shape, devices: int) -> Fit | None:
        """A packing of the whole gang, or None. Nothing changes until `take`."""
        pools = [pool.copy() for pool in self.pools]
        broken = [0, 0, 0]
        for part in shape:
            if _fill(pools, part, part.replicas, devices, broken):
                return None
        return Fit(tuple(pools), (broken[0], broken[1], broken[2]))

    def missing(self, shape: Shape, devices: int) -> list[int]:
        """How many pods of each part find no place, when the parts are packed as in `fit`."""
        pools = [pool.copy() for pool in self.pools]
        return [_fill(pools, part, part.replicas, devices, [0, 0, 0]) for part in shape]

    def take(self, fit: Fit) -> None:
        self.pools = fit.pools
        self.version += 1

    def hold(self, shape: Shape, devices: int) -> None:
        """Take room for a whole gang: a packing where there is one, else as `assume`."""
        fit = self.fit(shape, devices)
        if fit is not None:
            self.take(fit)
        else:
            for part in shape:
                self.assume(part, devices)

    def assume(self, part: Part, devices: int) -> None:
        """Take room for pods that are coming but not seen yet. Where they fit nowhere whole (the inventory and the
        binding disagree for a moment) each takes what the freest nodes have, so that nobody else counts on it."""
        pools = [pool.copy() for pool in self.pools]
        left = _fill(pools, part, part.replicas, devices, [0, 0, 0])
        need = dict(part.need)
        homes = [(vector, pool) for pool in pools if pool.takes[part.claim] for vector in pool.keys]
        for vector, pool in sorted(homes, key=lambda home: home[0], reverse=True):
            if left <= 0:
                break
            nodes = min(left, pool.counts[vector])
            rest = tuple(max(min(free, 0), free - need.get(index, 0)) for index, free in enumerate(vector))
            if rest != vector:
                pool.move(vector, rest, nodes)
                left -= nodes
        self.pools = tuple(pools)
        self.version += 1


def _fill(pools: list[PoolRoom], part: Part, replicas: int, devices: int, broken: list[int]) -> int:
    """Put `replicas` pods onto the fullest nodes that take them; returns how many found no place."""
    need = part.need
    usable = [pool for pool in pools if pool.takes[part.claim]]
    if not need:
        return 0 if any(pool.counts for pool in usable) else replicas
    floor = (need[0][1],) if need[0][0] == 0 else ()  # keys below this have too little of the first resource
    homes: Iterable[tuple[Vector, PoolRoom]] = (
        (vector, pool) for pool in usable for vector in islice(pool.keys, bisect_left(pool.keys, floor), None)
    )
    if len(usable) > 1:
        homes = sorted(homes, key=lambda home: home[0])
    left = replicas
    moves: list[tuple[PoolRoom, Vector, Vector, int]] = []
    for vector, pool in homes:
        each = slots(vector, need)
        if not each:
            continue
        full, rest = divmod(left, each)
        nodes = pool.counts[vector]
        if full >= nodes:
            full, rest = nodes, 0
        for count, pods in ((full, each), (1 if rest else 0, rest)):
            if count:
                after = list(vector)
                for index, amount in need:
                    after[index] -= amount * pods
                moves.append((pool, vector, tuple(after), count))
                left -= count * pods
                for place, size in enumerate((8, 4, 2)):
                    broken[place] += count * sum(
                        vector[index] // size - after[index] // size for index, _ in need if index < devices
                    )
        if not left:
            break
    for pool, vector, moved, count in moves:
        pool.move(vector, moved, count)
    return left


def committed(unit: Unit, space: Space) -> Shape:
    """What a placed or evicting unit needs beyond the pods that the inventory already shows."""
    visible = dict(unit.visible)
    hidden = (
        Component(part.name, max(0, part.replicas - max(0, visible.get(part.name, 0))), part.requests, part.claim)
        for part in unit.components
    )
    return space.shape(hidden)


def rooms(
    free: Mapping[str, MemberRoom], coming: Iterable[tuple[str, str, Shape]], space: Space
) -> dict[str, MemberRoom]:
    """`free` rooms less what is assumed for `coming`, which has (unit, member, shape) of pods that are committed but
    not seen: largest gangs first, then by unit, so that the same set always leaves the same room, however it came
    about. `free` stays as it is."""
    found = {name: room.copy() for name, room in free.items()}
    devices = space.devices
    sizes: dict[Shape, tuple[Vector, ...]] = {}
    items = sorted((item for item in coming if item[1] in found and item[2]), key=lambda item: item[0])
    for _, _, shape in items:
        if shape not in sizes:
            sizes[shape] = tuple(space.size(part.need) for part in shape)
    items.sort(key=lambda item: sizes[item[2]], reverse=True)
    for _, member, shape in items:
        found[member].hold(shape, devices)
    return found
