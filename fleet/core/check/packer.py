"""The checker's packer: can these gangs be packed onto the nodes of one member? Written apart from the planner's.

Gangs that can use none of each other's nodes are packed apart, so many node selectors cost no more than one. The tries,
until one succeeds: all pods together, largest first, onto the fullest nodes; gang by gang, largest first, and then with
the gangs first that found no place; and a packing that fleet/core/model/packing.py proposes, which is added up. A gang
with rules is packed as fleet/core/check/rules.py does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from fleet.core.check.nodes import EqualPods, NodeRows, asked_by, merged
from fleet.core.check.rules import PartRule, RuledGang
from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.effort import Effort
from fleet.core.model.matching import PoolIndex, labels_of
from fleet.core.model.member import Member, Pool
from fleet.core.model.packing import packing
from fleet.core.model.unit import NodeClaim
from fleet.core.snapshot.snapshot import MOST_NODES

_ABSENT = ""  # stands for all resources that no node of the member has, of which there is nothing


@dataclass(frozen=True, slots=True)
class Gang:
    """`parts`: (pods, requests of one, claim) of each component. `rules`: those that its nodes must keep, whose kinds
    of pods are these parts."""

    unit: str
    parts: tuple[tuple[int, Amounts, NodeClaim], ...]
    rules: tuple[PartRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _SizedGang:
    """A gang as one member sees it, and all pools that it may use. Its pods stand by kind, largest first; where it has
    rules, by component."""

    unit: str
    pods: tuple[EqualPods, ...]
    rules: tuple[PartRule, ...]
    pools: frozenset[int]

    @property
    def confined(self) -> bool:
        """Whether a rule keeps it from using all these pools together."""
        return bool(self.rules)

    def put(self, nodes: NodeRows) -> bool:
        """Put the whole gang onto nodes that keep its rules, or change nothing."""
        return RuledGang(nodes, self.pods).put(self.rules) if self.rules else nodes.put_whole(self.pods, None)


def first_unpackable(
    member: Member,
    coming: Sequence[Gang],
    gangs: Sequence[Gang],
    names: Set[str] = frozenset(),
    effort: Effort | None = None,
) -> list[str]:
    """Units of `gangs` that do not fit the member beside `coming` and the other gangs; empty when all fit. `names`: as
    of Packer, where the caller knows more than these gangs. `effort`: of all searches of this check; it gets the names
    of the bounds that ended the search for a refused gang."""
    asked = (name for gang in (*coming, *gangs) for _, requests, _ in gang.parts for name, _ in requests.items_)
    effort = Effort() if effort is None else effort
    packer = Packer(member, names or set(asked), effort)
    refused: set[str] = set()
    for pools, (beside, mine) in _apart(map(packer.sized, coming), map(packer.sized, gangs)).items():
        if mine:
            nodes = packer.nodes(pools, chain.from_iterable(gang.pods for gang in (*beside, *mine)))
            lost = set(_refused(nodes, beside, mine))
            refused |= lost
            if lost:
                effort.note(*nodes.bounds)
    return [gang.unit for gang in gangs if gang.unit in refused]


_Sides = tuple[list[_SizedGang], list[_SizedGang]]  # gangs on their way, and the gangs that are asked about


class Packer:
    """Packs gangs onto one member. `names`: the resources that any gang asks for; others may tell nodes apart, too.
    `effort`: of all searches of this check."""

    def __init__(self, member: Member, names: Iterable[str], effort: Effort | None = None) -> None:
        self._effort = Effort() if effort is None else effort
        self._member = member
        self._pools = (*member.pools, *member.potential)
        offered = {name for pool in self._pools for free, _ in pool.free for name, _ in free.items_}
        known = sorted(offered.intersection(names), key=lambda name: ("/" not in name, name))  # devices come first
        self._resources = [*known, _ABSENT]
        self._known = frozenset(known)
        self._open_to = cache(self._open)
        self._places = cache(_places)
        self._size_of = cache(self._size)
        self._fits = cache(self._fits_alone)
        self._index = PoolIndex([(labels_of(pool), pool.taints) for pool in self._pools])

    def takes(self, gang: Gang) -> bool:
        """Whether one gang fits the member alone."""
        return self._fits(replace(self.sized(gang), unit=""))

    def _fits_alone(self, gang: _SizedGang) -> bool:
        nodes = self.nodes(gang.pools, gang.pods)
        return nodes.have_room_alone(gang.pods) and gang.put(nodes)

    def beside(self, gangs: Sequence[Gang]) -> Member | None:
        """The member with these gangs on its nodes, where simple rules put them; None where they do not fit."""
        before = NodeRows(
            dict(enumerate(self._pools)), len(self._member.pools), self._resources, MOST_NODES, self._effort
        )
        after = _one_by_one(before, list(map(self.sized, gangs)))
        if after is None:
            return None
        rows = (before.free - after.free).tolist()
        taken = (Amounts.of(dict(zip(self._resources, row, strict=True))) for row in rows)
        pools: list[Pool] = []
        for pool in self._pools:
            nodes = (vector for vector, count in pool.free for _ in range(max(0, count)))
            left = Counter(vector.plus(gone, -1) for vector, gone in zip(nodes, taken, strict=False))
            pools.append(replace(pool, free=tuple(left.items())))
        there = len(self._member.pools)
        return replace(self._member, pools=tuple(pools[:there]), potential=tuple(pools[there:]))

    def sized(self, gang: Gang) -> _SizedGang:
        kinds: list[EqualPods] = []
        for count, requests, claim in gang.parts:
            if count > 0 or gang.rules:  # which are over the places of all parts
                kinds.append(EqualPods(count, self._size_of(requests), self._open_to(claim)))
        pools = kinds[0].pools if len(kinds) == 1 else frozenset[int]().union(*(kind.pools for kind in kinds))
        return _SizedGang(gang.unit, tuple(kinds) if gang.rules else merged(kinds), gang.rules, pools)

    def _size(self, requests: Amounts) -> tuple[int, ...]:
        amounts = dict(requests.items_)
        absent = any(amount > 0 and name not in self._known for name, amount in requests.items_)
        return (*[min(BOUNDS.amount, max(0, amounts.get(name, 0))) for name in self._resources[:-1]], int(absent))

    def _open(self, claim: NodeClaim) -> frozenset[int]:
        return self._places(self._index.takes(claim))

    def nodes(self, pools: frozenset[int], pods: Iterable[EqualPods]) -> NodeRows:
        most = sum(kind.count for kind in pods)
        numbered = {number: self._pools[number] for number in sorted(pools)}
        return NodeRows(numbered, len(self._member.pools), self._resources, most, self._effort)


def _places(bits: int) -> frozenset[int]:
    return frozenset([place for place in range(bits.bit_length()) if bits >> place & 1])


def _apart(coming: Iterable[_SizedGang], gangs: Iterable[_SizedGang]) -> dict[frozenset[int], _Sides]:
    """Gangs on their way, and the gangs asked about, by groups of pools that they use. No two groups share a pool."""
    sides = list(coming), list(gangs)
    group: dict[int, frozenset[int]] = {}
    used = {gang.pools for side in sides for gang in side}
    for pools in used:
        joined = pools.union(*(group[number] for number in pools if number in group))
        group.update(dict.fromkeys(joined, joined))
    whole = {pools: group[min(pools)] if pools else pools for pools in used}
    found: dict[frozenset[int], _Sides] = {pools: ([], []) for pools in whole.values()}
    for index, side in enumerate(sides):
        for gang in side:
            found[whole[gang.pools]][index].append(gang)
    return found


def _refused(nodes: NodeRows, coming: Sequence[_SizedGang], gangs: Sequence[_SizedGang]) -> Iterable[str]:
    """Units of gangs that are not packed onto the nodes; `nodes` stays as it is."""
    if _packed(nodes, coming, gangs) is not None:
        return
    now, fitting, tries = _with(nodes, coming), list[_SizedGang](), BOUNDS.check_tries
    for gang in gangs:
        if not gang.put(now):
            other = None
            able = nodes.have_room_alone(gang.pods)
            if able and not tries:
                nodes.bounds.add("check_tries")
            elif able:
                tries -= 1
                other = _packed(nodes, coming, [*fitting, gang])
            if other is None:
                yield gang.unit
                continue
            now = other
        fitting.append(gang)


def _packed(nodes: NodeRows, coming: Sequence[_SizedGang], gangs: Sequence[_SizedGang]) -> NodeRows | None:
    """The nodes once all gangs are there, in whatever way they fit; else with all of `gangs` and as much of `coming` as
    has room."""
    every = [*coming, *gangs]
    return (
        _together(nodes, every)
        or _one_by_one(nodes, every)
        or _one_by_one(_with(nodes, coming), gangs)
        or _proposed(nodes, every)
    )


def _together(nodes: NodeRows, gangs: Sequence[_SizedGang]) -> NodeRows | None:
    kinds, after = _kinds(gangs), nodes.copy()
    able = nodes.enough(kinds) and not any(gang.confined for gang in gangs)
    return after if able and not any(after.put(kind) for kind in kinds) else None


def _one_by_one(nodes: NodeRows, gangs: Sequence[_SizedGang]) -> NodeRows | None:
    """The nodes with every gang whole, largest first. Gangs that found no place come first in the next order."""
    if not nodes.enough(_kinds(gangs)):
        return None
    order = _ordered(gangs)
    for _ in range(BOUNDS.check_orders):
        after = nodes.copy()
        lost = [gang for gang in order if not gang.put(after)]
        if not lost:
            return after
        again = {gang.unit for gang in lost}
        order = [*lost, *(gang for gang in order if gang.unit not in again)]
    nodes.bounds.add("check_orders")
    return None


def _with(nodes: NodeRows, coming: Sequence[_SizedGang]) -> NodeRows:
    """The nodes once `coming` is there. A gang that does not fit takes the room that there is."""
    after = nodes.copy()
    for gang in _ordered(coming):
        if not gang.put(after):
            for kind in gang.pods:
                after.give_up(kind, after.put(kind))
    return after


def _proposed(nodes: NodeRows, gangs: Sequence[_SizedGang]) -> NodeRows | None:
    """The nodes after the packing that is proposed for all these pods, if it holds."""
    if any(gang.confined for gang in gangs):
        return None
    kinds = _kinds(gangs)
    takes = [nodes.usable(kind.pools).tolist() for kind in kinds]
    homes = [(tuple(free), [mask[node] for mask in takes]) for node, free in enumerate(nodes.free.tolist())]
    proposal = packing([(kind.size, kind.count) for kind in kinds], homes)
    nodes.bounds |= proposal.bounds
    after = nodes.copy()
    return after if after.lay(kinds, zip(range(len(homes)), proposal.counts or (), strict=False)) else None


def _kinds(gangs: Iterable[_SizedGang]) -> tuple[EqualPods, ...]:
    return merged(chain.from_iterable(gang.pods for gang in gangs))


def _ordered(gangs: Iterable[_SizedGang]) -> list[_SizedGang]:
    """Largest pods first; of gangs within one value of a label, with equal pods, the gang first that asks for most."""

    def size(gang: _SizedGang) -> tuple[list[tuple[int, ...]], list[int]]:
        return sorted([kind.size for kind in gang.pods], reverse=True), asked_by(gang.pods) if gang.confined else []

    return sorted(sorted(gangs, key=lambda gang: gang.unit), key=size, reverse=True)
