"""The nodes of one member, for the checker's packer: free vectors, and pods put onto them.

Pods of one kind are put onto nodes in one step, in numpy: the fullest nodes that take them come first, and nodes that
could be added come last. A gang of several kinds that does not fit that way is put as a bounded search proposes. The
proposal is added up before it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.effort import Effort
from fleet.core.model.matching import domain_of
from fleet.core.model.member import Pool
from fleet.core.model.refine import Home, RefineOutcome, refine

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EqualPods:
    """`count` equal pods: `size` of one by resource, and the numbers of the pools that take them."""

    count: int
    size: tuple[int, ...]
    pools: frozenset[int]


def asked_by(pods: Sequence[EqualPods]) -> list[int]:
    """The sums of the requests of pods, by index of the resource."""
    return [sum(kind.count * kind.size[index] for kind in pods) for index in range(len(pods[0].size) if pods else 0)]


def merged(pods: Iterable[EqualPods]) -> tuple[EqualPods, ...]:
    """Pods of one kind counted together, largest first."""
    pods = list(pods)
    if len(pods) < 2:
        return tuple(pods)
    count: dict[tuple[tuple[int, ...], frozenset[int]], int] = {}
    for kind in pods:
        key = (kind.size, kind.pools)
        count[key] = count.get(key, 0) + kind.count
    kinds = [EqualPods(pods, size, pools) for (size, pools), pods in count.items()]
    return tuple(sorted(kinds, key=lambda kind: kind.size, reverse=True))


class NodeRows:
    """One row of free amounts for each node of some pools."""

    def __init__(
        self, pools: Mapping[int, Pool], first_potential: int, resources: Sequence[str], most: int, effort: Effort
    ) -> None:
        """`pools` by number: the pools from `first_potential` on could be added. `most`: the number of pods to
        put, which is also the number of nodes alike that can be of use. `effort`: of all searches of this check."""
        rows: list[list[int]] = []
        numbers: list[int] = []
        for number, pool in pools.items():
            for vector, nodes in pool.free:
                free = dict(vector.items_)
                count = min(most, max(0, nodes))
                rows += [[max(-BOUNDS.amount, min(BOUNDS.amount, free.get(name, 0))) for name in resources]] * count
                numbers += [number] * count
        self.free: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), len(resources))
        self._pool: Ints = np.array(numbers, dtype=np.int64)
        self._later: Mask = self._pool >= first_potential
        self.effort = effort
        self.bounds: set[str] = set()  # the names of those that ended a search here, or in a copy
        self._pools = pools
        self._in = cache(self._mask)
        self.domains = cache(self._split)
        """The nodes of each domain of a level, by its name; nodes in none are left out."""

    def copy(self) -> NodeRows:
        other = object.__new__(NodeRows)
        other.__dict__ = {**self.__dict__, "free": self.free.copy()}
        return other

    def usable(self, pools: frozenset[int], among: Mask | None = None) -> Mask:
        """The nodes of these pools, as far as they are `among` some nodes (None: all)."""
        return self._in(pools) if among is None else self._in(pools) & among

    def room(self, pods: EqualPods, among: Mask | None = None) -> Ints:
        """How many of these pods each node takes, if it gets no others."""
        asked = [index for index, amount in enumerate(pods.size) if amount > 0]
        size = np.array([pods.size[index] for index in asked], dtype=np.int64)
        each: Ints = np.maximum(self.free[:, asked] // size, 0).min(axis=1, initial=pods.count)
        return np.where(self.usable(pods.pools, among), each, 0)

    def have_room_alone(self, pods: Iterable[EqualPods]) -> bool:
        """Whether each kind of pods would fit alone. A gang with a kind that would not does not fit either."""
        return all(int(self.room(kind).sum()) >= kind.count for kind in pods)

    def enough(self, pods: Sequence[EqualPods]) -> bool:
        """Whether all nodes have enough of every resource, added up."""
        free = self.free.clip(0).sum(axis=0, dtype=np.float64)  # of amounts near the largest a sum would overflow
        return all(amount <= have * (1 + 1e-9) for amount, have in zip(asked_by(pods), free, strict=False))

    def put(self, pods: EqualPods, among: Mask | None = None) -> int:
        """Put the pods onto the fullest nodes that take them; return the number of pods left over."""
        room = self.room(pods, among)
        homes = self._fullest_first(np.flatnonzero(room))
        before = np.concatenate(([0], np.cumsum(room[homes])[:-1])) if len(homes) else room[homes]
        taken = np.clip(pods.count - before, 0, room[homes])
        self.free[homes] -= taken[:, None] * np.array(pods.size, dtype=np.int64)
        return pods.count - int(taken.sum())

    def lay(
        self, pods: Sequence[EqualPods], uses: Iterable[tuple[int, Sequence[int]]], among: Mask | None = None
    ) -> bool:
        """Put all of the pods as a proposal says, (node, pods of each kind), if it holds; else change nothing. Each pod
        must be on a node that takes it, and each node have room for all that is put onto it."""
        able = [self.usable(kind.pools, among) for kind in pods]
        counts_left = [kind.count for kind in pods]
        after = self.free.copy()
        for node, counts in uses:
            if any(count < 0 or (count and not mask[node]) for count, mask in zip(counts, able, strict=True)):
                return False
            for index, have in enumerate(after[node].tolist()):
                asked = sum(kind.size[index] * count for kind, count in zip(pods, counts, strict=True))
                if asked > max(0, have):
                    return False
                after[node, index] -= asked
            counts_left = [had - count for had, count in zip(counts_left, counts, strict=True)]
        if any(counts_left):
            return False
        self.free = after
        return True

    def give_up(self, pods: EqualPods, left: int) -> None:
        """Take room for `left` pods that come and fit nowhere: the freest nodes lose it, down to nothing."""
        freest_first = self._fullest_first(np.flatnonzero(self.usable(pods.pools)))[::-1]
        for node in sorted(freest_first, key=self._later.__getitem__)[:left]:
            have = self.free[node]
            self.free[node] = np.maximum(np.minimum(have, 0), have - np.array(pods.size, dtype=np.int64))

    def _mask(self, pools: frozenset[int]) -> Mask:
        return self._pool >= 0 if pools >= self._pools.keys() else np.isin(self._pool, list(pools))

    def _split(self, level: str) -> list[tuple[str, Mask]]:
        values: dict[str, set[int]] = {}
        for number, pool in self._pools.items():
            values.setdefault(domain_of(pool, level), set()).add(number)
        return [(value, self._in(frozenset(numbers))) for value, numbers in sorted(values.items()) if value]

    def _fullest_first(self, homes: Ints) -> Ints:
        keys = [self.free[homes, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        order: Ints = homes[np.lexsort([*keys, self._later[homes]])]
        return order

    def put_whole(self, pods: Sequence[EqualPods], among: Mask | None) -> bool:
        """Put all of the pods onto the nodes `among` some, or change nothing."""
        before = self.free.copy()
        if not any(self.put(kind, among) for kind in pods):
            return True
        self.free = before
        return len(pods) > 1 and self._put_exactly(pods, among)

    def _put_exactly(self, pods: Sequence[EqualPods], among: Mask | None) -> bool:
        """Put one gang as the search of fleet/core/model/refine.py proposes."""
        rooms: Ints = np.array([self.room(kind, among) for kind in pods])
        alike: dict[tuple[tuple[int, ...], tuple[bool, ...]], list[int]] = {}
        for node in self._fullest_first(np.flatnonzero(rooms.any(axis=0))).tolist():
            takes = tuple([room > 0 for room in rooms[:, node].tolist()])
            alike.setdefault((tuple(self.free[node].tolist()), takes), []).append(node)
        needs = [tuple((index, amount) for index, amount in enumerate(kind.size) if amount > 0) for kind in pods]
        demand = [(need, kind.count) for need, kind in zip(needs, pods, strict=True)]
        homes = [Home(free, len(nodes), takes) for (free, takes), nodes in alike.items()]
        nodes = list(alike.values())
        kind = tuple(demand)
        left = self.effort.steps_left(kind)
        if not left:
            return False
        found = refine(demand, homes, BOUNDS.check_steps, left)
        self.effort.spend(kind, found.effort)
        if found.outcome is RefineOutcome.GAVE_UP:
            self.bounds.add("check_steps")
        return self.lay(pods, ((nodes[number].pop(), counts) for number, counts in found.uses), among)
