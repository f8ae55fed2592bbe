"""The nodes of one member, for the checker's packer: free vectors, and pods put onto them.

Pods of one kind are put onto nodes in one step, in numpy: the fullest nodes that take them come first, and nodes that
could be added come last. A gang of several kinds that does not fit that way is tried exactly, in a table with a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from fleet.model.matching import domain_of
from fleet.model.member import Pool

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Ways = list[tuple[tuple[int, ...], int]]  # of one node: pods of each kind but the most numerous, the most of that one
LARGEST = 1 << 62  # amounts beyond it count as so much
_MOST_STATES = 4096  # of the table
_MOST_STEPS = 100_000  # entries of the table times ways; some 200 ms


@dataclass(frozen=True, slots=True)
class Pods:
    """`count` equal pods: `size` of one by resource, and the numbers of the pools that take them."""

    count: int
    size: tuple[int, ...]
    pools: frozenset[int]


class Nodes:
    """One row of free amounts for each node of some pools."""

    def __init__(self, pools: Mapping[int, Pool], there: int, resources: Sequence[str], most: int) -> None:
        """`pools` by number: those from `there` on could be added. `most`: how many pods there are to put, and so how
        many nodes alike can be of use."""
        rows: list[list[int]] = []
        numbers: list[int] = []
        for number, pool in pools.items():
            for vector, nodes in pool.free:
                free = dict(vector.items_)
                count = min(most, max(0, nodes))
                rows += [[max(-LARGEST, min(LARGEST, free.get(name, 0))) for name in resources]] * count
                numbers += [number] * count
        self.free: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), len(resources))
        self._pool: Ints = np.array(numbers, dtype=np.int64)
        self._later: Mask = self._pool >= there
        self._pools = pools
        self._usable: dict[frozenset[int], Mask] = {}
        self._within: dict[str, list[Mask]] = {}

    def copy(self) -> Nodes:
        other = object.__new__(Nodes)
        other.__dict__ = {**self.__dict__, "free": self.free.copy()}
        return other

    def usable(self, pools: frozenset[int], among: Mask | None = None) -> Mask:
        mask = self._usable.get(pools)
        if mask is None:
            every = pools >= self._pools.keys()
            mask = np.full(len(self._pool), True) if every else np.isin(self._pool, list(pools))
            self._usable[pools] = mask
        return mask if among is None else mask & among

    def room(self, pods: Pods, among: Mask | None = None) -> Ints:
        """How many of these pods each node takes, if it gets no others."""
        asked = [index for index, amount in enumerate(pods.size) if amount > 0]
        size = np.array([pods.size[index] for index in asked], dtype=np.int64)
        each: Ints = np.maximum(self.free[:, asked] // size, 0).min(axis=1, initial=pods.count)
        return np.where(self.usable(pods.pools, among), each, 0)

    def have_room_alone(self, pods: Iterable[Pods]) -> bool:
        """Whether each kind of pods would fit if it were alone: else a gang of them does not fit."""
        return all(int(self.room(kind).sum()) >= kind.count for kind in pods)

    def enough(self, pods: Sequence[Pods]) -> bool:
        """Whether all nodes have enough of every resource, added up."""
        asked = (sum(kind.count * kind.size[index] for kind in pods) for index in range(self.free.shape[1]))
        free = self.free.clip(0).sum(axis=0, dtype=np.float64)  # of amounts near the largest a sum would overflow
        return all(amount <= have * (1 + 1e-9) for amount, have in zip(asked, free, strict=True) if amount)

    def put(self, pods: Pods, among: Mask | None = None) -> int:
        """Put the pods onto the fullest nodes that take them; returns how many are left over."""
        room = self.room(pods, among)
        homes = self._fullest_first(np.flatnonzero(room))
        before = np.concatenate(([0], np.cumsum(room[homes])[:-1])) if len(homes) else room[homes]
        taken = np.clip(pods.count - before, 0, room[homes])
        self.free[homes] -= taken[:, None] * np.array(pods.size, dtype=np.int64)
        return pods.count - int(taken.sum())

    def put_gang(self, pods: Sequence[Pods], topology: str = "") -> bool:
        """Put a whole gang, or change nothing. `topology`: the label of which its nodes have one value; "" for none."""
        if not topology:
            return self._put_whole(pods, None)
        asked = [sum(kind.count * kind.size[index] for kind in pods) for index in range(self.free.shape[1])]
        able: list[tuple[list[int], int, Mask]] = []
        for number, mask in enumerate(self._domains(topology)):
            free = self.free[mask].clip(0).sum(axis=0).tolist()
            if all(have >= need for have, need in zip(free, asked, strict=True)):
                able.append(([have for have, need in zip(free, asked, strict=True) if need], number, mask))
        return any(self._put_whole(pods, mask) for _, _, mask in sorted(able, key=lambda domain: domain[:2]))

    def give_up(self, pods: Pods, left: int) -> None:
        """Take room for `left` pods that come and fit nowhere: the freest nodes lose it, down to nothing."""
        freest_first = self._fullest_first(np.flatnonzero(self.usable(pods.pools)))[::-1]
        for node in sorted(freest_first, key=self._later.__getitem__)[:left]:
            have = self.free[node]
            self.free[node] = np.maximum(np.minimum(have, 0), have - np.array(pods.size, dtype=np.int64))

    def _domains(self, topology: str) -> list[Mask]:
        """The nodes of each value of a label, by value; nodes without one are in none."""
        masks = self._within.get(topology)
        if masks is None:
            values: dict[str, list[int]] = {}
            for number, pool in self._pools.items():
                values.setdefault(domain_of(pool, topology), []).append(number)
            masks = [np.isin(self._pool, numbers) for value, numbers in sorted(values.items()) if value]
            self._within[topology] = masks
        return masks

    def _fullest_first(self, homes: Ints) -> Ints:
        keys = [self.free[homes, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        order: Ints = homes[np.lexsort([*keys, self._later[homes]])]
        return order

    def _put_whole(self, pods: Sequence[Pods], among: Mask | None) -> bool:
        before = self.free.copy()
        if not any(self.put(kind, among) for kind in pods):
            return True
        self.free = before
        return len(pods) > 1 and self._put_exactly(pods, among)

    def _put_exactly(self, pods: Sequence[Pods], among: Mask | None) -> bool:
        """Put one gang in any way there is, unless the table for it is too large. The table has, after each node, the
        most pods placed of the most numerous kind, and how, by how many are placed of each other kind."""
        *few, many = sorted(pods, key=lambda kind: kind.count)
        kinds = [*few, many]
        wanted = [kind.count for kind in kinds]
        nothing, goal = (0,) * len(few), tuple(wanted[:-1])
        if prod(kind.count + 1 for kind in few) > _MOST_STATES:
            return False
        rooms: Ints = np.array([self.room(kind, among) for kind in kinds])
        ahead = rooms.sum(axis=1).tolist()  # what this node and those after it take of each kind alone
        table: dict[tuple[int, ...], tuple[int, Any]] = {nothing: (0, None)}
        known: dict[bytes, Ways] = {}
        steps = 0
        for node in self._fullest_first(np.flatnonzero(rooms.any(axis=0))).tolist():
            alike = self.free[node].tobytes() + rooms[:, node].tobytes()
            if alike not in known:
                known[alike] = self._ways(node, kinds, rooms[:, node].tolist())
            steps += len(table) * len(known[alike])
            if steps > _MOST_STEPS:
                return False
            ahead = [more - int(room) for more, room in zip(ahead, rooms[:, node], strict=True)]
            if not known[alike]:
                continue
            after: dict[tuple[int, ...], tuple[int, Any]] = {}
            for placed, (most, how) in table.items():
                for took, last in known[alike]:
                    state = tuple(map(sum, zip(placed, took, strict=True)))
                    total = min(many.count, most + last)
                    missing = (want - more for want, more in zip(wanted, ahead, strict=True))
                    reach = all(
                        need <= have <= want for need, have, want in zip(missing, (*state, total), wanted, strict=True)
                    )
                    if reach and total > after.get(state, (-1, None))[0]:
                        after[state] = (total, (how, node, (*took, total - most)))
            if {state: found[0] for state, found in after.items()} == {state: had[0] for state, had in table.items()}:
                known[alike] = []  # one more node like this changes nothing
            else:
                table = after
            if goal in table and table[goal][0] == many.count:
                break
        most, how = table.get(goal, (-1, None))
        while most == many.count and how is not None:
            how, node, counts = how
            for kind, count in zip(kinds, counts, strict=True):
                self.free[node] -= np.array(kind.size, dtype=np.int64) * count
        return most == many.count

    def _ways(self, node: int, kinds: Sequence[Pods], room: Sequence[int]) -> Ways:
        """How one node may be used."""
        have = self.free[node].tolist()
        ways: Ways = []
        for took in product(*(range(most, -1, -1) for most in room[:-1])):
            left = [
                amount - sum(kind.size[index] * count for kind, count in zip(kinds, took, strict=False))
                for index, amount in enumerate(have)
            ]
            if all(rest >= 0 for rest, amount in zip(left, have, strict=True) if rest < amount):
                fits = (left[index] // need for index, need in enumerate(kinds[-1].size) if need > 0)
                ways.append((took, max(0, min((room[-1], *fits)))))
        return ways
