"""Nodes of one member that a decision cannot tell apart, as how many of them have which free vector."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from fleet.core.placement.packing.space import Vector


class PoolRoom:
    """Nodes alike for this decision: how many have which free vector. `takes`: by claim, whether the nodes take it;
    `domains`: the domain of the nodes at each level; `potential`: the nodes are not there yet."""

    __slots__ = ("_total", "counts", "domains", "keys", "potential", "takes")

    def __init__(
        self,
        takes: tuple[bool, ...],
        counts: dict[Vector, int],
        keys: list[Vector] | None = None,
        domains: tuple[str, ...] = (),
        potential: bool = False,
    ) -> None:
        self.takes = takes
        self.counts = counts
        self.keys = sorted(counts) if keys is None else keys
        self.domains = domains
        self.potential = potential
        self._total: list[int] | None = None

    @property
    def total(self) -> Sequence[int]:
        """The sum of free room, by resource; kept up to date after the first question."""
        if self._total is None:
            width = len(self.keys[0]) if self.keys else 0
            entries = self.counts.items()
            self._total = [sum(max(0, vector[i]) * nodes for vector, nodes in entries) for i in range(width)]
        return self._total

    def copy(self) -> PoolRoom:
        made = PoolRoom(self.takes, dict(self.counts), list(self.keys), self.domains, self.potential)
        made._total = None if self._total is None else list(self._total)
        return made

    def changed(self, more: Mapping[Vector, int]) -> PoolRoom:
        """The same pool with so many more nodes, or fewer, of each free vector: cheaper than many moves."""
        counts = dict(self.counts)
        for vector, nodes in more.items():
            left = counts.get(vector, 0) + nodes
            if left:
                counts[vector] = left
            else:
                counts.pop(vector, None)
        keys = [vector for vector in self.keys if vector in counts]
        keys += [vector for vector in more if vector in counts and vector not in self.counts]
        keys.sort()
        return PoolRoom(self.takes, counts, keys, self.domains, self.potential)

    def move(self, vector: Vector, to: Vector, nodes: int) -> None:
        """`nodes` nodes that had `vector` free have `to` free now."""
        left = self.counts[vector] - nodes
        if left:
            self.counts[vector] = left
        else:
            del self.counts[vector]
            self.keys.pop(bisect_left(self.keys, vector))
        total = self._total
        self.put(to, nodes)
        if total is not None:
            for index, (had, has) in enumerate(zip(vector, to, strict=True)):
                if had != has:
                    total[index] += (max(0, has) - max(0, had)) * nodes
            self._total = total

    def put(self, vector: Vector, nodes: int) -> None:
        """Add nodes with `vector` free."""
        self._total = None
        if vector in self.counts:
            self.counts[vector] += nodes
        else:
            self.counts[vector] = nodes
            insort(self.keys, vector)
