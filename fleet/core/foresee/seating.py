"""The seats of a gang that has rules: its bundles go into domains, the tightest first.

The planner packs counts of nodes; a run of the future needs nodes by name, so bundles are put here, too, and more
simply. Even numbers are not tried for, and a soft rule is one domain or any nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from fleet.core.model.nesting import Bundle
from fleet.core.model.refine import Vector
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import NodeClaim

Pools = frozenset[int]
Part = tuple[Vector, NodeClaim]  # the need of one pod, and its claim
Move = tuple[str, Vector]  # a node, and what was free on it, or what is used of it


class NodeRoom(Protocol):
    """Nodes with room for pods."""

    def domains(self, level: str, within: Pools | None) -> Iterable[tuple[str, Pools]]:
        """The pools of each domain of a level, the domain with the least free room first."""
        ...

    def fill(
        self, need: Vector, claim: NodeClaim, pods: int, within: Pools | None, moves: list[Move], uses: list[Move]
    ) -> bool:
        """Put pods onto the fullest nodes that take them; whether all have found a place."""
        ...

    def undo(self, moves: Sequence[Move]) -> None:
        """Give nodes back what was free on them, the last first."""
        ...


class GangSeats:
    """Puts one gang onto nodes. `moves`: how to undo it; `uses`: what it uses of each node."""

    def __init__(self, nodes: NodeRoom, parts: Mapping[int, Part]) -> None:
        """`parts`: by place of the component."""
        self._nodes = nodes
        self._parts = parts
        self._bundles_in: Counter[tuple[PlacementRule, str]] = Counter()
        self.moves: list[Move] = []
        self.uses: list[Move] = []

    def seated(self, bundle: Bundle, within: Pools | None = None) -> bool:
        """Whether all pods of one bundle have seats now; if not, nothing is changed."""
        moves, uses, before = len(self.moves), len(self.uses), self._bundles_in.copy()
        loose = sorted(bundle.pods, key=lambda one: self._parts[one[0]][0], reverse=True)
        if all(self._spread(one, within) for one in bundle.inner) and all(
            self._nodes.fill(*self._parts[place], pods, within, self.moves, self.uses) for place, pods in loose
        ):
            return True
        self._nodes.undo(self.moves[moves:])
        del self.moves[moves:], self.uses[uses:]
        self._bundles_in = before
        return False

    def _spread(self, bundle: Bundle, within: Pools | None) -> bool:
        rule = bundle.rule
        assert rule is not None
        rest, most = bundle.count, rule.most // rule.size if rule.most else bundle.count
        for domain, pools in self._nodes.domains(rule.level, within):
            room = min(rest, most - self._bundles_in[rule, domain])
            while room and self.seated(bundle, pools):
                self._bundles_in[rule, domain] += 1
                rest, room = rest - 1, room - 1
            if not rest:
                return True
        return not rule.hard and self.seated(bundle, within)
