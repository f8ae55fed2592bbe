"""The checker's packer: can these gangs be packed onto the nodes of one member? Not the planner's, on purpose.

Works on every node vector of every pool as it stands in the snapshot, in numpy, one step per distinct pod and not per
pod. The tries, until one succeeds: all pods together, largest first, into the fullest nodes; gang by gang, largest
first; in the order of the plan, changing to another packing where that one sticks; and for few pods a bounded search
over distinct nodes. A gang that largest-first does not pack is tried exactly, as a table over how many of its pods of
each kind are placed, if that table is small. A gang that must lie within one value of a node label is packed into the
nodes of one value only. Nodes that could be added are used after those that are there.

Where that is asked for (`thorough`), a packing that is proposed by a search which the planner asks, too, will do: it is
not believed but added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from fleet.model.amounts import Amounts
from fleet.model.matching import domain_of, pool_takes
from fleet.model.member import Member
from fleet.model.packing import packing
from fleet.model.unit import NodeClaim

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_LARGEST = 1 << 62
_SEARCH_PODS = 14
_SEARCH_STEPS = 20_000
_MOST_TRIES = 64
_MOST_ORDERS = 4
_MOST_CELLS = 4096  # of the table of the exact try for one gang
_MOST_WORK = 8_000_000  # cells times ways to use a node times nodes


@dataclass(frozen=True, slots=True)
class Gang:
    """`parts`: (pods, requests of one, claim) of each component. `topology`: the label that all nodes of the gang must
    have one value of; "" for none."""

    unit: str
    parts: tuple[tuple[int, Amounts, NodeClaim], ...]
    topology: str = ""


@dataclass(frozen=True, slots=True)
class _Pods:
    """`count` equal pods: `size` per resource, and which nodes they may use."""

    count: int
    size: tuple[int, ...]
    claim: NodeClaim


class _Nodes:
    """Free vectors of all nodes of a member, one row a node; those that could be added come last."""

    def __init__(self, member: Member, resources: Sequence[str]) -> None:
        rows: list[list[int]] = []
        pools: list[int] = []
        self._pools = (*member.pools, *member.potential)
        for number, pool in enumerate(self._pools):
            for amounts, nodes in pool.free:
                row = [max(-_LARGEST, min(_LARGEST, amounts[name])) for name in resources]
                rows += [row] * max(0, nodes)
                pools += [number] * max(0, nodes)
        self.free: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), len(resources))
        self._pool = np.array(pools, dtype=np.int64)
        self.later = self._pool >= len(member.pools)
        self._usable: dict[NodeClaim, Mask] = {}
        self._within: dict[str, list[Mask]] = {}

    def usable(self, claim: NodeClaim) -> Mask:
        mask = self._usable.get(claim)
        if mask is None:
            takes = np.array([pool_takes(pool, claim) for pool in self._pools], dtype=np.bool_)
            mask = self._usable[claim] = takes[self._pool] if len(self._pool) else np.zeros(0, dtype=np.bool_)
        return mask

    def within(self, topology: str) -> list[Mask]:
        """The nodes of each value of a label, by value; those without one are in none."""
        masks = self._within.get(topology)
        if masks is None:
            values = [domain_of(pool, topology) for pool in self._pools]
            each = (np.array([value == wanted for value in values]) for wanted in sorted({v for v in values if v}))
            masks = self._within[topology] = [of[self._pool] for of in each] if len(self._pool) else []
        return masks

    def put(self, pods: _Pods, among: Mask | None = None) -> int:
        """Put the pods onto the fullest nodes that take them; returns how many are left over."""
        usable = self.usable(pods.claim) if among is None else self.usable(pods.claim) & among
        asked = [index for index, amount in enumerate(pods.size) if amount > 0]
        if not asked:
            return 0 if usable.any() else pods.count
        size = np.array([pods.size[index] for index in asked], dtype=np.int64)
        room = np.where(usable, np.maximum(self.free[:, asked] // size, 0).min(axis=1), 0)
        homes = np.flatnonzero(room)
        homes = homes[self._fullest_first(homes)]
        before = np.concatenate(([0], np.cumsum(room[homes])[:-1])) if len(homes) else room[homes]
        taken = np.clip(pods.count - before, 0, room[homes])
        self.free[homes[:, None], np.array(asked)] -= taken[:, None] * size
        return pods.count - int(taken.sum())

    def _fullest_first(self, homes: Ints) -> Ints:
        keys = [self.free[homes, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        return np.lexsort([*keys, self.later[homes]])

    def put_gang(self, pods: Sequence[_Pods], topology: str = "") -> bool:
        """Put all of a gang, largest pods first or else in whatever way an exact try finds, or nothing of it."""
        if not topology:
            return self._put_whole(pods, None)
        total = [sum(group.count * group.size[index] for group in pods) for index in range(self.free.shape[1])]
        asked = [index for index, amount in enumerate(total) if amount > 0]
        masks = self.within(topology)
        free = [tuple(np.maximum(self.free[mask][:, asked], 0).sum(axis=0).tolist()) for mask in masks]
        enough = (
            number
            for number in sorted(range(len(masks)), key=free.__getitem__)
            if all(have >= total[index] for have, index in zip(free[number], asked, strict=True))
        )
        return any(self._put_whole(pods, masks[number]) for number in enough)

    def _put_whole(self, pods: Sequence[_Pods], among: Mask | None) -> bool:
        kept = self.free.copy()
        if not any(self.put(group, among) for group in _largest_first(pods)):
            return True
        self.free = kept
        return len(pods) > 1 and self._put_exactly(pods, among)

    def _put_exactly(self, pods: Sequence[_Pods], among: Mask | None) -> bool:
        """A packing of one gang if there is any, unless the table for it is too large. The table has, after each node,
        for each number of pods placed of all groups but the largest, how many of that one are placed at most."""
        groups = sorted(pods, key=lambda group: group.count)
        room = np.array([self._room(group, among) for group in groups])
        if (room.sum(axis=1) < [group.count for group in groups]).any():
            return False
        *few, many = groups
        shape = tuple(group.count + 1 for group in few)
        homes = np.flatnonzero(room.any(axis=0))
        homes = homes[self._fullest_first(homes)]
        cells = int(np.prod(shape))
        if cells > _MOST_CELLS:
            return False
        table = np.full(shape, -1, dtype=np.int64)
        table[(0,) * len(few)] = 0
        work = 0
        steps: list[tuple[int, list[tuple[tuple[int, ...], int]], Ints]] = []
        known: dict[tuple[bytes, bytes], list[tuple[tuple[int, ...], int]]] = {}
        for home in homes:
            alike = (self.free[home].tobytes(), room[:, home].tobytes())
            if alike not in known:
                known[alike] = self._ways(int(home), few, many, room[:, home])
            ways = known[alike]
            work += cells * len(ways)
            if work > _MOST_WORK:
                return False
            after = np.full(shape, -1, dtype=np.int64)
            for took, last in ways:
                to = after[tuple(slice(count, None) for count in took)]
                source = table[tuple(slice(0, size - count) for size, count in zip(shape, took, strict=True))]
                np.maximum(to, np.where(source >= 0, source + last, -1), out=to)
            steps.append((int(home), ways, table))
            table = after
        if table[tuple(-1 for _ in few)] < many.count:
            return False
        self._go_back(steps, [*few, many], int(table[tuple(-1 for _ in few)]))
        return True

    def _room(self, group: _Pods, among: Mask | None) -> Ints:
        """How many pods of a group each node takes."""
        usable = self.usable(group.claim) if among is None else self.usable(group.claim) & among
        size = np.array(group.size, dtype=np.int64)
        each = np.where(size > 0, np.maximum(self.free, 0) // np.maximum(size, 1), group.count)
        least: Ints = each.min(axis=1, initial=group.count)
        return np.where(usable, least, 0)

    def _ways(self, home: int, few: Sequence[_Pods], many: _Pods, room: Ints) -> list[tuple[tuple[int, ...], int]]:
        """How one node may be used: pods of each of the few, and the most of the many beside them."""
        have = [int(amount) for amount in self.free[home]]
        ways: list[tuple[tuple[int, ...], int]] = []
        for took in product(*(range(int(most) + 1) for most in room[:-1])):
            left = [
                amount - sum(group.size[index] * count for group, count in zip(few, took, strict=True))
                for index, amount in enumerate(have)
            ]
            if all(amount >= 0 for amount, was in zip(left, have, strict=True) if amount < was):
                fits = [left[index] // need for index, need in enumerate(many.size) if need > 0]
                ways.append((took, max(0, min([int(room[-1]), *fits]))))
        return ways

    def _go_back(
        self, steps: Sequence[tuple[int, list[tuple[tuple[int, ...], int]], Ints]], groups: Sequence[_Pods], value: int
    ) -> None:
        """Put the pods where the table says, from its last node to its first."""
        at = tuple(group.count for group in groups[:-1])
        spare = value - groups[-1].count  # the table may hold more of the last group than there are
        for home, ways, table in reversed(steps):
            for took, last in ways:
                before = tuple(count - less for count, less in zip(at, took, strict=True))
                if min(before, default=0) >= 0 and table[before] >= 0 and table[before] + last == value:
                    unused = min(spare, last)
                    spare -= unused
                    for group, count in zip(groups, (*took, last - unused), strict=True):
                        self.free[home] -= np.array(group.size, dtype=np.int64) * count
                    at, value = before, value - last
                    break

    def give_up(self, pods: _Pods, left: int) -> None:
        """Room for pods that come and fit nowhere: the freest nodes lose it, down to nothing."""
        usable = np.flatnonzero(self.usable(pods.claim))
        keys = [self.free[usable, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        keys.append(~self.later[usable])
        for node in usable[np.lexsort(keys)][::-1][:left]:
            have = self.free[node]
            self.free[node] = np.maximum(np.minimum(have, 0), have - np.array(pods.size, dtype=np.int64))


def first_unpackable(
    member: Member,
    coming: Sequence[Gang],
    gangs: Sequence[Gang],
    names: Iterable[str] = (),
    *,
    tries: int = _MOST_TRIES,
    thorough: bool = False,
) -> list[str]:
    """Units of `gangs` that do not fit the member beside `coming` and the others; empty when all do. `names`: more
    resources to tell nodes apart by. Whether one is refused depends on what is beside it, not on who came first.
    `tries`: for so many other packings are tried; 1 is enough for whether all fit. `thorough`: any packing of all will
    do, not only one that is found by simple rules."""
    asked = {name for gang in (*coming, *gangs) for _, requests, _ in gang.parts for name in requests}
    resources = sorted(asked.union(names), key=lambda name: ("/" not in name, name))

    def together(every: Sequence[Gang]) -> _Nodes | None:
        if any(gang.topology for gang in every):
            return None
        nodes = _Nodes(member, resources)
        return None if any(nodes.put(pods) for pods in _largest_first(_pods(every, resources))) else nodes

    def one_by_one(every: Sequence[Gang]) -> _Nodes | None:
        nodes = _Nodes(member, resources)
        return nodes if all(nodes.put_gang(_pods([gang], resources), gang.topology) for gang in every) else None

    def ordered(every: Sequence[Gang]) -> list[Gang]:
        sizes = {gang.unit: _largest_first(_pods([gang], resources)) for gang in every}

        def size(gang: Gang) -> tuple[list[tuple[int, ...]], list[int]]:
            pods = sizes[gang.unit]
            total = [sum(group.count * group.size[index] for group in pods) for index in range(len(resources))]
            return [group.size for group in pods], total if gang.topology else []

        return sorted(sorted(every, key=lambda gang: gang.unit), key=size, reverse=True)

    def assumed(every: Sequence[Gang]) -> _Nodes:
        nodes = _Nodes(member, resources)
        for gang in ordered(every):
            pods = _largest_first(_pods([gang], resources))
            if not nodes.put_gang(pods, gang.topology):
                for group in pods:
                    nodes.give_up(group, nodes.put(group))
        return nodes

    def beside(new: Sequence[Gang]) -> _Nodes | None:
        """What comes as it may, all of the new ones whole; those that found no place are tried first next time."""
        order = ordered(new)
        for _ in range(_MOST_ORDERS):
            nodes = assumed(coming)
            lost = [gang for gang in order if not nodes.put_gang(_pods([gang], resources), gang.topology)]
            if not lost:
                return nodes
            order = [*lost, *(gang for gang in order if gang not in lost)]
        return None

    if together([*coming, *gangs]) or one_by_one(ordered([*coming, *gangs])):
        return []
    bound = any(gang.topology for gang in (*coming, *gangs))
    if thorough and not bound and _proposed(_Nodes(member, resources), _pods([*coming, *gangs], resources)):
        return []
    kept: list[Gang] = []
    refused: list[str] = []
    nodes = assumed(coming)
    for gang in gangs:
        if nodes.put_gang(_pods([gang], resources), gang.topology):
            kept.append(gang)
        elif len(refused) < tries:
            every = [*coming, *kept, gang]
            other = together(every) or one_by_one(ordered(every)) or beside([*kept, gang])
            if other is None:
                refused.append(gang.unit)
                continue
            kept.append(gang)
            nodes = other
        else:
            refused.append(gang.unit)
    if (
        refused
        and not bound
        and _search(_Nodes(member, resources), _largest_first(_pods([*coming, *gangs], resources)))
    ):
        return []
    return refused


def _pods(gangs: Sequence[Gang], resources: Sequence[str]) -> list[_Pods]:
    count: dict[tuple[tuple[int, ...], NodeClaim], int] = {}
    for gang in gangs:
        for pods, requests, claim in gang.parts:
            if pods > 0:
                key = (tuple(min(_LARGEST, max(0, requests[name])) for name in resources), claim)
                count[key] = count.get(key, 0) + pods
    return [_Pods(pods, size, claim) for (size, claim), pods in count.items()]


def _largest_first(pods: Sequence[_Pods]) -> list[_Pods]:
    return sorted(pods, key=lambda p: p.size, reverse=True)


def _proposed(nodes: _Nodes, pods: Sequence[_Pods]) -> bool:
    """Whether the packing that is proposed for these pods, if any, holds: every pod is on a node that is there, takes
    it, and has room for all that is put onto it."""
    homes = [int(node) for node in np.flatnonzero(~nodes.later)]
    takes = [nodes.usable(group.claim) for group in pods]
    free = [tuple(int(amount) for amount in nodes.free[node]) for node in homes]
    proposal = packing(
        [(group.size, group.count) for group in pods],
        [(have, [bool(mask[node]) for mask in takes]) for node, have in zip(homes, free, strict=True)],
    )
    if proposal is None or len(proposal) != len(homes):
        return False
    for node, have, counts in zip(homes, free, proposal, strict=True):
        if any(count < 0 or (count and not mask[node]) for count, mask in zip(counts, takes, strict=True)):
            return False
        for index, amount in enumerate(have):
            asked = sum(group.size[index] * count for group, count in zip(pods, counts, strict=True))
            if asked > max(0, amount):
                return False
    return all(sum(counts[kind] for counts in proposal) == group.count for kind, group in enumerate(pods))


def _search(nodes: _Nodes, pods: Sequence[_Pods]) -> bool:
    """Whether some packing exists; False, too, when the bound is reached first. Nodes alike are tried once."""
    single = [group for group in pods for _ in range(min(group.count, _SEARCH_PODS + 1))]
    if len(single) > _SEARCH_PODS:
        return False
    free = [[int(amount) for amount in row] for row in nodes.free]
    masks = {group.claim: nodes.usable(group.claim) for group in pods}
    steps = 0

    def descend(index: int) -> bool:
        nonlocal steps
        if index == len(single):
            return True
        size, mask = single[index].size, masks[single[index].claim]
        tried: set[tuple[object, ...]] = set()
        for node, have in enumerate(free):
            alike = (*have, *(bool(other[node]) for other in masks.values()))
            if not mask[node] or alike in tried or any(0 < need > room for need, room in zip(size, have, strict=True)):
                continue
            tried.add(alike)
            steps += 1
            if steps > _SEARCH_STEPS:
                return False
            free[node] = [room - need for need, room in zip(size, have, strict=True)]
            if descend(index + 1):
                return True
            free[node] = have
        return False

    return descend(0)
