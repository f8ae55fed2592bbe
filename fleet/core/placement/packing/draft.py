"""Pools that gangs are being packed into, and the packing that comes of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice, repeat
from typing import Any

from fleet.core.model.effort import Effort
from fleet.core.model.refine import Home, RefineOutcome, refine
from fleet.core.placement.packing.levels import Domain
from fleet.core.placement.packing.pool import PoolRoom
from fleet.core.placement.packing.space import GangPart, Vector, slots


@dataclass(frozen=True, slots=True)
class Fit:
    """A packing of a gang into one member. `pools`: after it; `broken`: the slots of 8, 4 and 2 devices that are broken
    by it, and the pods without devices that take room beside free ones; `potential`: its pods that wait for nodes that
    an autoscaler must add; `domain`: of a gang that must lie within one, those of its levels; `bundles`: where its
    bundles lie, as (number, domain, how many); `spread`: the domains that soft rules take beyond one each, pods in none
    counted as one."""

    pools: tuple[PoolRoom, ...]
    broken: tuple[int, int, int, int]
    potential: int = 0
    domain: Domain = ()
    bundles: tuple[tuple[int, str, int], ...] = ()
    spread: int = 0


class PackingDraft:
    """Pools that a gang is being packed into: the pools of `ground`, potential ones after all others. A pool is copied
    when something in it changes first."""

    def __init__(self, pools: tuple[PoolRoom, ...], ground: Sequence[int], devices: int) -> None:
        self.pools = list(pools)
        self._ground = ground
        self._before = pools
        self._devices = devices
        self._broken = [0, 0, 0, 0]
        self._potential = 0

    def mark(self) -> tuple[object, ...]:
        """The packing so far, for `back`."""
        self._before = tuple(self.pools)
        return self._before, tuple(self._broken), self._potential

    def back(self, mark: tuple[Any, ...]) -> None:
        """Undo all that was packed since the mark."""
        pools, broken, self._potential = mark
        self._before, self.pools, self._broken = pools, list(pools), list(broken)

    def room(self, part: GangPart, ground: Sequence[int]) -> int:
        """Room in these pools for how many pods of this part alone."""
        return room_for([self.pools[index] for index in ground], part)

    def free(self, ground: Sequence[int]) -> list[int]:
        """What is free in these pools together, by resource; nothing where they have no nodes."""
        totals = [total for index in ground if (total := self.pools[index].total)]
        return [sum(amounts) for amounts in zip(*totals, strict=True)]

    def fit(self) -> Fit:
        eights, fours, twos, beside = self._broken
        return Fit(tuple(self.pools), (eights, fours, twos, beside), self._potential)

    def use(self, index: int, vector: Vector, after: Vector, nodes: int, pods: int) -> None:
        """`nodes` nodes of a pool take `pods` pods in all."""
        pool = self.pools[index]
        if pool is self._before[index]:
            pool = self.pools[index] = pool.copy()
        pool.move(vector, after, nodes)
        if pool.potential:
            self._potential += pods
            return
        broken = self._broken
        idle = False
        for resource in range(self._devices):
            had, has = vector[resource], after[resource]
            if had != has:
                broken[0] += nodes * (had // 8 - has // 8)
                broken[1] += nodes * (had // 4 - has // 4)
                broken[2] += nodes * (had // 2 - has // 2)
                pods = 0  # pods with devices leave none idle
            idle = idle or has > 0
        broken[3] += pods if idle else 0

    def fullest_first(
        self, claim: int | None = None, floor: Vector = (), ground: Sequence[int] | None = None
    ) -> Iterable[tuple[Vector, int]]:
        """The distinct free vectors, `floor` or larger, each with the index of its pool; potential nodes last."""
        sides: tuple[list[Iterable[tuple[Vector, int]]], list[Iterable[tuple[Vector, int]]]] = ([], [])
        for index in self._ground if ground is None else ground:
            pool = self.pools[index]
            if claim is None or pool.takes[claim]:
                keys = islice(pool.keys, bisect_left(pool.keys, floor), None)
                sides[pool.potential].append(zip(keys, repeat(index)))
        return chain.from_iterable(side[0] if len(side) == 1 else merge(*side) for side in sides if side)

    def _any_node(self, part: GangPart, ground: Sequence[int]) -> bool:
        pools = (self.pools[index] for index in ground)
        return any(pool.counts for pool in pools if pool.takes[part.node_claim])

    def fill(self, part: GangPart, replicas: int, *, whole: bool = False, ground: Sequence[int] | None = None) -> int:
        """Put pods onto the fullest nodes of the ground that take them; returns how many found no place. `whole`: all
        or none."""
        need, ground = part.need, self._ground if ground is None else ground
        if not need:
            return 0 if self._any_node(part, ground) else replicas
        floor = (need[0][1],) if need[0][0] == 0 else ()  # keys below this have too little of the first resource
        rest_of_pods = replicas
        moves: list[tuple[int, Vector, Vector, int, int]] = []
        for vector, index in self.fullest_first(part.node_claim, floor, ground):
            each = rest_of_pods  # pods that this node takes, as in `slots`; the innermost loop of all
            for resource, amount in need:
                fit = vector[resource] // amount
                if fit < each:
                    each = fit
                    if fit <= 0:
                        break
            if each <= 0:
                continue
            full, rest = divmod(rest_of_pods, each)
            nodes = self.pools[index].counts[vector]
            if full >= nodes:
                full, rest = nodes, 0
            for count, pods in ((full, each), (1 if rest else 0, rest)):
                if count:
                    after = list(vector)
                    for resource, amount in need:
                        after[resource] -= amount * pods
                    moves.append((index, vector, tuple(after), count, count * pods))
                    rest_of_pods -= count * pods
            if not rest_of_pods:
                break
        if not rest_of_pods or not whole:
            for move in moves:
                self.use(*move)
        return rest_of_pods

    def fill_exactly(
        self, pods: Sequence[tuple[GangPart, int]], effort: Effort, key: object, ground: Sequence[int]
    ) -> bool:
        """Put pods of several parts onto the nodes as a bounded search finds; all or none. `key`: of gangs alike, for
        the effort that they may take together."""
        steps = effort.steps_left(key)
        if not steps or not self._enough(pods, ground):
            return False
        takes = {index: tuple(self.pools[index].takes[part.node_claim] for part, _ in pods) for index in ground}
        places = [(index, vector) for vector, index in self.fullest_first(ground=ground) if any(takes[index])]
        homes = [Home(vector, self.pools[index].counts[vector], takes[index]) for index, vector in places]
        refinement = refine([(part.need, count) for part, count in pods], homes, most_effort=steps)
        effort.spend(key, refinement.effort)
        if refinement.outcome is RefineOutcome.GAVE_UP:
            effort.note("refining_steps")
        if refinement.outcome is not RefineOutcome.PACKED:
            return False
        for number, counts in refinement.uses:
            index, vector = places[number]
            after = list(vector)
            for (part, _), count in zip(pods, counts, strict=True):
                for resource, amount in part.need:
                    after[resource] -= amount * count
            self.use(index, vector, tuple(after), 1, sum(counts))
        return True

    def _enough(self, pods: Iterable[tuple[GangPart, int]], ground: Sequence[int]) -> bool:
        """Whether these pools have as much of everything, in sum, as the pods ask for."""
        totals = [total for index in ground if (total := self.pools[index].total)]
        asked: dict[int, int] = {}
        for part, count in pods:
            for resource, amount in part.need:
                asked[resource] = asked.get(resource, 0) + amount * count
        return all(amount <= sum([total[resource] for total in totals]) for resource, amount in asked.items())


def room_for(pools: Iterable[PoolRoom], part: GangPart) -> int:
    """Room in these pools for how many pods of this part alone."""
    return sum(
        count * slots(vector, part.need)
        for pool in pools
        if pool.takes[part.node_claim]
        for vector, count in pool.counts.items()
    )
