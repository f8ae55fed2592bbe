"""The HyperNodes that each node of a member lies in, as a tree: from the coarsest to the finest.

A HyperNode lies within another where all its nodes do, and its tier is lower. Members of HyperNodes nest by themselves
then, and so do racks and blocks that both list nodes. Where two overlap and neither lies within the other, the smaller
one stays and the other is left out, since a node would have two domains of a level. A member that is no HyperNode of a
lower tier is left out, which ends every circle.

Each node is held against the selectors once, when it comes or has other labels, and each HyperNode when it is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Protocol

from fleet.core.model.member import places_of
from fleet.members.hypernodes import HyperNode, HyperNodeMember

PATTERNS_MAX = 1000  # regular expressions of all HyperNodes that are looked for in each name
Places = tuple[tuple[str, str], ...]
_NONE: frozenset[str] = frozenset()


class LabelledNode(Protocol):
    """A node, as its selectors see it."""

    @property
    def labels(self) -> Mapping[str, str]: ...


class HyperNodeTree:
    """See the module. `nodes`: the nodes of the member by name; `put` and `remove` follow its changes."""

    def __init__(self, nodes: Mapping[str, LabelledNode]) -> None:
        self._nodes = nodes
        self._hypernodes: dict[str, HyperNode] = {}
        self._beside: frozenset[str] = frozenset()
        self._by_name: dict[str, tuple[str, ...]] = {}  # name of a node -> HyperNodes that list this name
        self._tests: dict[str, list[HyperNodeMember]] = {}  # HyperNode -> its members that choose nodes otherwise
        self._direct: dict[str, frozenset[str]] = {}  # node -> HyperNodes that list it, where there are any
        self._shared: dict[frozenset[str], frozenset[str]] = {}
        self._around: dict[str, frozenset[str]] = {}  # HyperNode -> itself and those that have it as a member
        self._sizes: Counter[str] = Counter()
        self._common: Counter[tuple[str, str]] = Counter()  # nodes of two HyperNodes
        self._overlaps: dict[str, str] = {}  # a HyperNode that is left out -> the one that it overlaps
        self._places: dict[frozenset[str], Places] = {}
        self._faults: tuple[str, ...] = ()
        self._settled = True
        self._whole = True  # no arranging is under way

    # -- sources

    def arranging(self, hypernodes: Iterable[HyperNode], beside: frozenset[str] = frozenset()) -> Generator[None]:
        """Take these in place of those before, in pieces: the places of all nodes may be others after the last.
        `beside`: names of HyperNodes that are there, and are not for this member."""
        before, tests = self._hypernodes, self._tests
        now = {hypernode.name: hypernode for hypernode in hypernodes}
        if now == before and beside == self._beside and self._whole:
            return
        self._hypernodes, self._beside, self._whole = now, beside, False
        try:
            self._faults = tuple(self._index())
            self._places.clear()
            names = {*before, *now}
            stale = {n for n in names if now.get(n) != before.get(n) or tests.get(n) != self._tests.get(n)}
            for node, direct in list(self._direct.items()):
                if direct & stale:
                    self._list(node, direct - stale)
            for name in stale & now.keys():
                for member in [entry for entry in now[name].members if entry.of_nodes]:
                    self._hold(name, member)
                    yield
            self._whole = True
        finally:
            if not self._whole:  # the next look begins anew
                self._hypernodes, self._by_name, self._tests, self._direct = {}, {}, {}, {}
            self._count_anew()

    def _index(self) -> Iterator[str]:
        """Look at the HyperNodes among themselves; the faults."""
        self._by_name, self._tests, above = {}, {}, dict[str, set[str]]()
        patterns = 0
        for hypernode in self._hypernodes.values():
            yield from hypernode.faults
            for member in hypernode.members:
                patterns += member.pattern is not None
                if patterns > PATTERNS_MAX and member.pattern is not None:
                    shown = member.pattern.text[:40]
                    yield f"HyperNode {hypernode.name}: there are more than {PATTERNS_MAX} patterns: {shown}"
                elif not member.of_nodes:
                    yield from self._nest(hypernode, member, above)
                elif member.name:
                    self._by_name[member.name] = (*self._by_name.get(member.name, ()), hypernode.name)
                else:
                    self._tests.setdefault(hypernode.name, []).append(member)
        self._around = {}
        for hypernode in sorted(self._hypernodes.values(), key=lambda one: -one.tier):
            around = [self._around[name] for name in above.get(hypernode.name, ())]
            self._around[hypernode.name] = frozenset({hypernode.name}).union(*around)

    def _nest(self, hypernode: HyperNode, member: HyperNodeMember, above: dict[str, set[str]]) -> Iterator[str]:
        """Put it above the HyperNodes that are this member of it; the faults."""
        names = [member.name] if member.name else [name for name in self._hypernodes if member.takes(name, {})]
        for name in names:
            other = self._hypernodes.get(name)
            if other is None and name not in self._beside:
                yield f"HyperNode {hypernode.name} has the member {name}, which does not exist"
            elif other is not None and other.tier >= hypernode.tier:
                why = f"has the member {name} of tier {other.tier}: members are of lower tiers"
                yield f"HyperNode {hypernode.name} of tier {hypernode.tier} {why}"
            elif other is not None:
                above.setdefault(name, set()).add(hypernode.name)

    def _hold(self, hypernode: str, member: HyperNodeMember) -> None:
        """Hold all nodes against one member."""
        if member.name:
            chosen = [member.name] if member.name in self._nodes else []
        elif any(test is member for test in self._tests.get(hypernode, ())):
            chosen = [name for name, node in self._nodes.items() if member.takes(name, node.labels)]
        else:
            chosen = []  # a pattern too many
        for name in chosen:
            self._list(name, self._direct.get(name, _NONE) | {hypernode})

    def _list(self, node: str, direct: frozenset[str]) -> None:
        """Keep the HyperNodes that list a node; equal ones once."""
        if direct:
            self._direct[node] = self._shared.setdefault(direct, direct)
        else:
            self._direct.pop(node, None)

    # -- nodes

    def put(self, name: str) -> None:
        """The node is there, or has other labels."""
        self.remove(name)
        if not self._hypernodes:
            return
        labels = self._nodes[name].labels
        tested = [key for key, tests in self._tests.items() if any(test.takes(name, labels) for test in tests)]
        self._list(name, frozenset((*self._by_name.get(name, ()), *tested)))
        self._count(name, 1)

    def remove(self, name: str) -> None:
        self._count(name, -1)
        self._list(name, _NONE)

    def _count(self, node: str, sign: int) -> None:
        names = sorted(self._all(self._direct.get(node, _NONE)))
        for number, name in enumerate(names):
            self._sizes[name] += sign
            for other in names[number + 1 :]:
                self._common[name, other] += sign
        self._settled = self._settled and not names

    def _count_anew(self) -> None:
        self._sizes.clear()
        self._common.clear()
        self._places.clear()
        self._shared = {direct: direct for direct in self._direct.values()}
        for node in self._direct:
            self._count(node, 1)
        self._settled = False

    def _all(self, direct: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self._around[name] for name in direct))

    # -- places

    def settle(self) -> bool:
        """Look for overlaps, after nodes have come or gone; whether other HyperNodes are left out than before, and the
        places of any node may be others."""
        if self._settled or not self._whole:
            return False
        self._settled, before = True, self._overlaps
        crossed: dict[str, list[str]] = {}
        for (name, other), nodes in self._common.items():
            if nodes and not self._nested(name, other, nodes):
                crossed.setdefault(name, []).append(other)
                crossed.setdefault(other, []).append(name)
        self._overlaps = {}
        for name in sorted(crossed, key=lambda name: (self._sizes[name], self._hypernodes[name].tier, name)):
            stays = [other for other in crossed[name] if other not in self._overlaps and self._before(other, name)]
            if stays:
                self._overlaps[name] = min(stays)
        if self._overlaps.keys() == before.keys():
            return False
        self._places.clear()
        return True

    def _before(self, name: str, other: str) -> bool:
        """Whether the first one stays where the two overlap."""
        mine, its = self._hypernodes[name], self._hypernodes[other]
        return (self._sizes[name], mine.tier, name) < (self._sizes[other], its.tier, other)

    def _nested(self, name: str, other: str, common: int) -> bool:
        """Whether one lies within the other, as another level."""
        inner, outer = sorted((self._hypernodes[name], self._hypernodes[other]), key=lambda one: one.tier)
        return inner.tier < outer.tier and inner.level != outer.level and self._sizes[inner.name] == common

    def places(self, node: str) -> Places:
        """The domains that the node lies in, coarse to fine; nodes of the same domains share one value."""
        direct = self._direct.get(node, _NONE)
        known = self._places.get(direct)
        if known is None:
            there = [self._hypernodes[name] for name in self._all(direct) if name not in self._overlaps]
            there.sort(key=lambda one: -one.tier)
            known = self._places[direct] = places_of([(one.level, one.name) for one in there])
        return known

    def levels(self) -> tuple[str, ...]:
        """Of all HyperNodes, coarse to fine."""
        tiers = {(-one.tier, one.level) for one in self._hypernodes.values()}
        return tuple(dict.fromkeys([level for _, level in sorted(tiers)]))

    def faults(self) -> tuple[str, ...]:
        """What is left out of the tree and why, as texts."""
        overlaps = [
            f"HyperNode {name} of {self._sizes[name]} nodes overlaps {other} of {self._sizes[other]}: it is left out"
            for name, other in sorted(self._overlaps.items())
        ]
        return (*self._faults, *overlaps)

    def absent(self) -> tuple[str, ...]:
        """The names that HyperNodes list and no node has."""
        return tuple(sorted(self._by_name.keys() - self._nodes.keys()))
