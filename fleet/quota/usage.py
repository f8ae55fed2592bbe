"""The algebra of quota: what is used at every node of the tree, and whether one more gang may be charged.

A gang is charged at its leaf and at every ancestor, in every resource it asks for, and as one job. It is refused where
used + request > max; a resource that a node's max does not name is unlimited there, and a node that is already above
its max (the max was lowered while work runs) refuses only what would raise the same resource further. Integers are
exact: no amount is ever scaled, rounded or compared with a 32-bit number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.unit import Phase, Unit
from fleet.quota.tree import MAX_JOBS, QuotaTree


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first limit, from the leaf up, that a request would break."""

    node: str
    resource: str
    request: int
    used: int
    max: int

    @property
    def short(self) -> int:
        return self.used + self.request - self.max


def request_of(unit: Unit) -> Amounts:
    """What a unit is charged at each node: its total, and one job. Amounts below zero (bad input) count as zero."""
    charged = {name: amount for name, amount in unit.total.items_ if amount > 0}
    charged[MAX_JOBS] = 1
    return Amounts.of(charged)


def charged_path(tree: QuotaTree, leaf: str) -> tuple[str, ...]:
    """Where work of `leaf` counts: the leaf and its ancestors; for a leaf that was removed from the tree while work
    of it runs, the ancestors that are left."""
    while leaf and leaf not in tree.nodes:
        leaf = leaf.rpartition("/")[0]
    return tree.ancestors(leaf)


class Usage:
    """Amounts used per node of one tree. Mutable; `copy()` is cheap enough for one try."""

    def __init__(self, tree: QuotaTree) -> None:
        self._tree = tree
        self._used: dict[str, dict[str, int]] = {path: {} for path in tree.nodes}
        self._limits = {path: dict(node.max) for path, node in tree.nodes.items()}
        self._paths: dict[str, tuple[str, ...]] = {}

    @staticmethod
    def of(tree: QuotaTree, units: Iterable[Unit]) -> Usage:
        """What the placed and evicting units among `units` use; units outside quota are charged nowhere."""
        usage = Usage(tree)
        for unit in units:
            if unit.leaf is not None and unit.phase is not Phase.WAITING:
                usage.charge(unit.leaf, request_of(unit))
        return usage

    def copy(self) -> Usage:
        other = Usage(self._tree)
        other._used = {path: dict(used) for path, used in self._used.items()}
        return other

    def path(self, leaf: str) -> tuple[str, ...]:
        line = self._paths.get(leaf)
        if line is None:
            line = self._paths[leaf] = charged_path(self._tree, leaf)
        return line

    def used(self, node: str, resource: str) -> int:
        return self._used[node].get(resource, 0)

    def room(self, node: str, resource: str) -> int | None:
        """What may still be charged there, never below zero; None for unlimited."""
        limit = self._limits[node].get(resource)
        return None if limit is None else max(0, limit - self.used(node, resource))

    def charge(self, leaf: str, request: Amounts, times: int = 1) -> None:
        for node in self.path(leaf):
            used = self._used[node]
            for resource, amount in request.items_:
                used[resource] = used.get(resource, 0) + amount * times

    def refusal(self, leaf: str, request: Amounts) -> Refusal | None:
        """What the request would break first, or None: nodes from the leaf up, resources by name."""
        for node in self.path(leaf):
            limits, used = self._limits[node], self._used[node]
            if not limits:
                continue
            for resource, amount in request.items_:
                limit = limits.get(resource)
                if limit is not None and used.get(resource, 0) + amount > limit:
                    return Refusal(node, resource, amount, used.get(resource, 0), limit)
        return None
