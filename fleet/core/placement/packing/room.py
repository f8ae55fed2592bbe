"""Room: free vectors of the members over one list of resources, and the packer that gangs go through.

Nodes that no unit of this decision can tell apart are one pool here, whatever their labels, and resources that no unit
asks for are dropped: so a member of 300 nodes is often a dozen distinct vectors. Within a pool a gang goes to the
fullest nodes that still take it (fewest free GPUs first), so that whole nodes stay whole; largest pods go first. That
order finds a packing of equal pods whenever there is one. Where pods of a gang differ and it fails, an exact search of
bounded size follows (fleet/core/model/refine.py); past its bound the gang waits, which is safe.

A gang that must lie within one value of a topology label (a rack) is packed into the fullest such domain that takes it
whole. Nodes that an autoscaler could add are *potential*: a gang lies there only where the caller asks for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from fleet.core.model.effort import Effort
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Component, Unit
from fleet.core.placement.packing.bundles import BundlePacker
from fleet.core.placement.packing.draft import Fit, PackingDraft, room_for
from fleet.core.placement.packing.levels import Domain, Levels
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.space import GangPart, Shape, Space, Vector, bundle_of, confined, levels_of


class MemberRoom:
    """Free room of one member. `version` grows with every change, so that answers about it can be kept."""

    __slots__ = ("_domains", "effort", "name", "pools", "version")

    def __init__(self, name: str, pools: tuple[PoolRoom, ...], effort: Effort) -> None:
        """`effort`: of the searches of this decision (`Space.effort`)."""
        self.name = name
        self.pools = pools
        self.version = 0
        self.effort = effort
        self._domains: dict[tuple[Levels, bool], list[tuple[Domain, list[int]]]] = {}  # none depends on free room

    @staticmethod
    def of(member: Member, space: Space) -> MemberRoom:
        """Pools that the same claims may use, in the same domains, become one; potential ones come last. Amounts below
        zero stay: nothing fits there."""
        merged = _MergedPools(space)
        for potential, pools in ((False, member.pools), (True, member.potential)):
            for pool in pools:
                counts = merged.counts(pool, potential)
                for amounts, nodes in pool.free:
                    if nodes > 0:
                        vector = space.vector(amounts)
                        counts[vector] = counts.get(vector, 0) + nodes
        return MemberRoom(member.name, merged.pools(), space.effort)

    @staticmethod
    def emptied(member: Member, space: Space) -> MemberRoom | None:
        """The member as if nothing ran in it and all its potential nodes were there, from above; None when the
        inventory does not say what its nodes have."""
        merged = _MergedPools(space)
        for pool in (*member.pools, *member.potential):
            count = sum(nodes for _, nodes in pool.free if nodes > 0)
            if count and not pool.allocatable.items_:
                return None
            if count:
                counts, most = merged.counts(pool, False), pool.most
                vector = tuple([most.get(name, 0) for name in space.resources])
                counts[vector] = counts.get(vector, 0) + count
        return MemberRoom(member.name, merged.pools(), space.effort)

    def copy(self) -> MemberRoom:
        """A room of its own; the pools are shared, since what changes one puts another in its place."""
        return self.with_pools(self.pools)

    def with_pools(self, pools: tuple[PoolRoom, ...]) -> MemberRoom:
        """The same member with other room in its pools."""
        made = MemberRoom(self.name, pools, self.effort)
        made._domains = self._domains
        return made

    def slots(self, part: GangPart) -> int:
        """Room for how many pods of this part alone, on nodes that are there, in whatever domains."""
        return room_for((pool for pool in self.pools if not pool.potential), part)

    def most(self, shape: Shape) -> int:
        """At most how many gangs of this shape the nodes that are there would take if all of them were its."""
        return sum(
            min((room_for([self.pools[index] for index in ground], part) // part.replicas for part in shape), default=0)
            for _, ground in self.domains(levels_of(shape))
        )

    def domains(self, levels: Levels, *, potential: bool = False) -> list[tuple[Domain, list[int]]]:
        """Each domain of these levels with its pools, by index, which a gang that lies within one may use together. The
        whole member is the one domain of no level."""
        key = (levels, potential)
        if key not in self._domains:
            self._domains[key] = self._split(levels, potential)
        return self._domains[key]

    def _split(self, levels: Levels, potential: bool) -> list[tuple[Domain, list[int]]]:
        found: dict[Domain, list[int]] = {} if levels else {(): []}
        for index, pool in enumerate(self.pools):
            domain = tuple([pool.domains[level] for level in levels])
            if all(domain) and (potential or not pool.potential):
                found.setdefault(domain, []).append(index)
        return sorted(found.items())

    def fit(self, shape: Shape, devices: int, *, potential: bool = False) -> Fit | None:
        """A packing of the whole gang, or None. Nothing changes until `take`. With `potential`, nodes that could be
        added are used where those that are there do not suffice. Of several domains the fullest one that takes it."""
        best: Fit | None = None
        for domain, ground in self._fullest_first(shape, potential, whole=True):
            fit = self._pack(shape, devices, ground, potential=potential)
            if fit is not None and (best is None or fit.potential < best.potential):
                best = replace(fit, domain=domain) if domain else fit
                if not fit.potential:
                    break
        return best

    def _fullest_first(self, shape: Shape, potential: bool, *, whole: bool = False) -> list[tuple[Domain, list[int]]]:
        """The domains that a gang may lie in, by what is free of what it asks for; `whole`: without those that have too
        little in all."""
        domains = self.domains(levels_of(shape), potential=potential)
        if not levels_of(shape):
            return domains
        asked: dict[int, int] = {}
        for part in shape:
            for index, amount in part.need:
                asked[index] = asked.get(index, 0) + amount * part.replicas
        order = sorted(asked.items())
        rows: list[tuple[tuple[int, ...], Domain, list[int]]] = []
        for domain, ground in domains:
            free = self.pools[ground[0]].total
            if len(ground) > 1:
                totals = [total for number in ground if (total := self.pools[number].total)]
                free = [sum(amounts) for amounts in zip(*totals, strict=True)]
            if not free:
                continue
            for index, amount in order:
                if whole and free[index] < amount:
                    break
            else:
                rows.append((tuple([free[index] for index, _ in order]), domain, ground))
        rows.sort()
        return [(domain, ground) for _, domain, ground in rows]

    def _pack(self, shape: Shape, devices: int, ground: Sequence[int], *, potential: bool) -> Fit | None:
        draft = PackingDraft(self.pools, ground, devices)
        bundle = bundle_of(shape)
        if bundle is not None:
            packer = BundlePacker(shape, draft, partial(self.domains, potential=potential), self.effort)
            if not packer.place(bundle, ground):
                return None
            return replace(draft.fit(), bundles=packer.bundles, spread=packer.spread)
        for part in shape:
            if draft.fill(part, part.replicas, whole=True):
                return self._refined(shape, devices, ground) if len(shape) > 1 else None
        return draft.fit()

    def _refined(self, shape: Shape, devices: int, ground: Sequence[int]) -> Fit | None:
        draft = PackingDraft(self.pools, ground, devices)
        pods = [(part, part.replicas) for part in shape]
        return draft.fit() if draft.fill_exactly(pods, self.effort, shape, ground) else None

    def missing(self, shape: Shape, devices: int) -> list[int]:
        """How many pods of each part find no place, potential nodes included, when the parts are packed largest first
        and, of several domains, into the one that leaves out the fewest."""
        best: list[int] | None = None
        bundle = bundle_of(shape)
        for _, ground in self._fullest_first(shape, True):
            draft = PackingDraft(self.pools, ground, devices)
            if bundle is not None:
                packer = BundlePacker(shape, draft, partial(self.domains, potential=True), self.effort)
                left = packer.unplaced(bundle, ground)
            else:
                left = [draft.fill(part, part.replicas) for part in shape]
            if best is None or sum(left) < sum(best):
                best = left
        return best if best is not None else [part.replicas for part in shape]

    def take(self, fit: Fit) -> None:
        self.pools = fit.pools
        self.version += 1

    def hold(self, shape: Shape, devices: int) -> Fit | None:
        """Take room for a whole gang: a packing, which is returned, where there is one, else as `assume`."""
        fit = self.fit(shape, devices) or self.fit(shape, devices, potential=True)
        if fit is not None:
            self.take(fit)
        else:
            for part in shape:
                self.assume(part, devices)
        return fit

    def assume(self, part: GangPart, devices: int) -> None:
        """Take room for pods that are coming but not seen yet. Where they fit nowhere whole (the inventory and the
        binding disagree for a moment) each takes what the freest nodes have, so that nobody else counts on it."""
        draft = PackingDraft(self.pools, range(len(self.pools)), devices)
        pods = draft.fill(part, part.replicas)
        need = dict(part.need)
        homes = [
            (vector, index)
            for index, pool in enumerate(draft.pools)
            if pool.takes[part.node_claim]
            for vector in pool.keys
        ]
        homes.sort(key=lambda home: home[0], reverse=True)
        for vector, index in sorted(homes, key=lambda home: draft.pools[home[1]].potential):
            if pods <= 0:
                break
            nodes = min(pods, draft.pools[index].counts[vector])
            rest = tuple(max(min(free, 0), free - need.get(resource, 0)) for resource, free in enumerate(vector))
            if rest != vector:
                draft.use(index, vector, rest, nodes, 0)
                pods -= nodes
        self.pools = tuple(draft.pools)
        self.version += 1


class _MergedPools:
    """Pools that nobody can tell apart, put together."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._found: dict[tuple[bool, tuple[bool, ...], tuple[str, ...]], dict[Vector, int]] = {}

    def counts(self, pool: Pool, potential: bool) -> dict[Vector, int]:
        """Where nodes of this pool are counted."""
        takes, domains = self._space.traits(pool)
        return self._found.setdefault((potential, takes, domains), {})

    def pools(self) -> tuple[PoolRoom, ...]:
        return tuple(
            PoolRoom(key[1], counts, domains=key[2], potential=key[0])
            for key, counts in sorted(self._found.items())
            if counts
        )


def committed(unit: Unit, space: Space) -> Shape:
    """The pods of a placed or evicting unit that the inventory does not show yet."""
    visible = dict(unit.visible)
    hidden = (
        Component(part.name, max(0, part.replicas - max(0, visible.get(part.name, 0))), part.requests, part.claim)
        for part in unit.components
    )
    return space.shape(hidden, unit.rules)


def _total(shape: Shape, space: Space) -> Vector:
    sizes = [(part.replicas, space.size(part.need)) for part in shape]
    return tuple(sum(replicas * size[index] for replicas, size in sizes) for index in range(len(space.resources)))


def largest_first(coming: Iterable[tuple[str, str, Shape]], space: Space) -> list[tuple[str, str, Shape]]:
    """The order in which gangs that come are laid out: largest pods first, among equal ones those that must lie within
    one domain, by what they need there in all, then by unit."""
    items = sorted(coming, key=itemgetter(0))
    sizes: dict[int, tuple[Vector, ...]] = {}  # by identity: many gangs have one shape
    for _, _, shape in items:
        if id(shape) not in sizes:
            pods = tuple(space.size(part.need) for part in shape)
            sizes[id(shape)] = (*pods, _total(shape, space) if confined(shape) else ())
    items.sort(key=lambda item: sizes[id(item[2])], reverse=True)
    return items
