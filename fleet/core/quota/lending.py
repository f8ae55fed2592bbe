"""The queues whose unused `min` a queue may be using: an answer for people. No decision asks for it.

What a node uses beyond its own `min` it borrows. The lenders are the nodes beside it, then those beside each node above
it, whose own `min` is not all used: the nearest first, of one height the one with most unused. Each counts up to its
unused `min`. Two borrowers may name the same lender, since no unit of room is marked as lent to one of them. What no
lender covers is room that no queue is promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from fleet.core.quota.limits import COUNTS
from fleet.core.quota.tree import QuotaTree

LENDERS_MOST = 3  # that are named of a node and resource

Amounts = Mapping[str, int]


def borrowed(tree: QuotaTree, path: str, used: Mapping[str, Amounts]) -> dict[str, int]:
    """What the node uses beyond its `min`, by resource in base units; empty for the root, which has nobody beside it.
    `used`: of every node, those below it included."""
    node = tree.nodes[path]
    if node.parent is None:
        return {}
    over = {name: amount - node.min.get(name, 0) for name, amount in used.get(path, {}).items() if name not in COUNTS}
    return {name: amount for name, amount in over.items() if amount > 0}


class Lenders:
    """The nodes of one tree that have unused `min`. The nodes beside each other are sorted once."""

    def __init__(self, tree: QuotaTree, used: Mapping[str, Amounts]) -> None:
        self._tree, self._used = tree, used
        self._idle: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def of(self, path: str, resource: str, amount: int) -> list[tuple[str, int]]:
        """Path and amount of the lenders for what the node borrows of the resource, LENDERS_MOST at most."""
        loans: list[tuple[str, int]] = []
        line = self._tree.ancestors(path)
        for below, above in pairwise(line):
            for idle, lender in self._children(above, resource):
                if amount <= 0 or len(loans) == LENDERS_MOST:
                    return loans
                if lender != below:
                    loans.append((lender, min(idle, amount)))
                    amount -= idle
        return loans

    def _children(self, parent: str, resource: str) -> list[tuple[int, str]]:
        """Unused `min` and path of the nodes right below `parent` that have some, the most first."""
        if (parent, resource) not in self._idle:
            nodes = (self._tree.nodes[child] for child in self._tree.nodes[parent].children)
            idle = (
                (node.min.get(resource, 0) - self._used.get(node.path, {}).get(resource, 0), node.path)
                for node in nodes
            )
            kept = sorted((one for one in idle if one[0] > 0), key=lambda one: (-one[0], one[1]))
            self._idle[parent, resource] = kept
        return self._idle[parent, resource]
