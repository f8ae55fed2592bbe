"""The checker's packer: can these gangs be packed onto the nodes of one member? Not the planner's, on purpose.

Works on every node vector of every pool as it stands in the snapshot, in numpy, one step per distinct pod and not per
pod. The tries, until one succeeds: all pods together, largest first, into the fullest nodes; gang by gang, largest
first; in the order of the plan, changing to another packing where that one sticks; and for few pods a bounded search
over distinct nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleet.model.amounts import Amounts
from fleet.model.matching import pool_takes
from fleet.model.member import Member
from fleet.model.unit import NodeClaim

Ints = npt.NDArray[np.int64]
_LARGEST = 1 << 62
_SEARCH_PODS = 14
_SEARCH_STEPS = 20_000
_MOST_TRIES = 64


@dataclass(frozen=True, slots=True)
class Gang:
    """`parts`: (pods, requests of one, claim) of each component."""

    unit: str
    parts: tuple[tuple[int, Amounts, NodeClaim], ...]


@dataclass(frozen=True, slots=True)
class _Pods:
    """`count` equal pods: `size` per resource, and which nodes they may use."""

    count: int
    size: tuple[int, ...]
    claim: NodeClaim


class _Nodes:
    """Free vectors of all nodes of a member, one row a node."""

    def __init__(self, member: Member, resources: Sequence[str]) -> None:
        rows: list[list[int]] = []
        pools: list[int] = []
        for number, pool in enumerate(member.pools):
            for amounts, nodes in pool.free:
                row = [max(-_LARGEST, min(_LARGEST, amounts[name])) for name in resources]
                rows += [row] * max(0, nodes)
                pools += [number] * max(0, nodes)
        self.free: Ints = np.array(rows, dtype=np.int64).reshape(len(rows), len(resources))
        self._pool = np.array(pools, dtype=np.int64)
        self._member = member
        self._usable: dict[NodeClaim, npt.NDArray[np.bool_]] = {}

    def usable(self, claim: NodeClaim) -> npt.NDArray[np.bool_]:
        mask = self._usable.get(claim)
        if mask is None:
            takes = np.array([pool_takes(pool, claim) for pool in self._member.pools], dtype=np.bool_)
            mask = self._usable[claim] = takes[self._pool] if len(self._pool) else np.zeros(0, dtype=np.bool_)
        return mask

    def put(self, pods: _Pods) -> int:
        """Put the pods onto the fullest nodes that take them; returns how many are left over."""
        usable = self.usable(pods.claim)
        asked = [index for index, amount in enumerate(pods.size) if amount > 0]
        if not asked:
            return 0 if usable.any() else pods.count
        size = np.array([pods.size[index] for index in asked], dtype=np.int64)
        room = np.where(usable, np.maximum(self.free[:, asked] // size, 0).min(axis=1), 0)
        homes = np.flatnonzero(room)
        keys = [self.free[homes, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        homes = homes[np.lexsort(keys)]
        before = np.concatenate(([0], np.cumsum(room[homes])[:-1])) if len(homes) else room[homes]
        taken = np.clip(pods.count - before, 0, room[homes])
        self.free[homes[:, None], np.array(asked)] -= taken[:, None] * size
        return pods.count - int(taken.sum())

    def put_gang(self, pods: Sequence[_Pods]) -> bool:
        """Put all of a gang, largest pods first, or nothing of it."""
        kept = self.free.copy()
        if any(self.put(group) for group in _largest_first(pods)):
            self.free = kept
            return False
        return True

    def give_up(self, pods: _Pods, left: int) -> None:
        """Room for pods that come and fit nowhere: the freest nodes lose it, down to nothing."""
        usable = np.flatnonzero(self.usable(pods.claim))
        keys = [self.free[usable, index] for index in range(self.free.shape[1] - 1, -1, -1)]
        for node in usable[np.lexsort(keys)][::-1][:left]:
            have = self.free[node]
            self.free[node] = np.maximum(np.minimum(have, 0), have - np.array(pods.size, dtype=np.int64))


def first_unpackable(
    member: Member, coming: Sequence[Gang], gangs: Sequence[Gang], names: Iterable[str] = ()
) -> list[str]:
    """Units of `gangs` that do not fit the member beside `coming` and the others; empty when all do. `names`: more
    resources to tell nodes apart by. Whether one is refused depends on what is beside it, not on who came first."""
    asked = {name for gang in (*coming, *gangs) for _, requests, _ in gang.parts for name in requests}
    resources = sorted(asked.union(names), key=lambda name: ("/" not in name, name))

    def together(every: Sequence[Gang]) -> _Nodes | None:
        nodes = _Nodes(member, resources)
        return None if any(nodes.put(pods) for pods in _largest_first(_pods(every, resources))) else nodes

    def one_by_one(every: Sequence[Gang]) -> _Nodes | None:
        nodes = _Nodes(member, resources)
        return nodes if all(nodes.put_gang(_pods([gang], resources)) for gang in every) else None

    def ordered(every: Sequence[Gang]) -> list[Gang]:
        sizes = {gang.unit: [pods.size for pods in _largest_first(_pods([gang], resources))] for gang in every}
        return sorted(sorted(every, key=lambda gang: gang.unit), key=lambda gang: sizes[gang.unit], reverse=True)

    def assumed(every: Sequence[Gang]) -> _Nodes:
        nodes = _Nodes(member, resources)
        for gang in ordered(every):
            pods = _largest_first(_pods([gang], resources))
            if not nodes.put_gang(pods):
                for group in pods:
                    nodes.give_up(group, nodes.put(group))
        return nodes

    if together([*coming, *gangs]) or one_by_one(ordered([*coming, *gangs])):
        return []
    kept = list(coming)
    refused: list[str] = []
    nodes = assumed(coming)
    for gang in gangs:
        pods = _pods([gang], resources)
        if nodes.put_gang(pods):
            kept.append(gang)
        elif len(refused) < _MOST_TRIES:
            every = [*kept, gang]
            other = together(every) or one_by_one(ordered(every))
            if other is None:
                other = assumed(kept)
                if not other.put_gang(pods):
                    refused.append(gang.unit)
                    continue
            kept.append(gang)
            nodes = other
        else:
            refused.append(gang.unit)
    if refused and _search(_Nodes(member, resources), _largest_first(_pods([*coming, *gangs], resources))):
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
