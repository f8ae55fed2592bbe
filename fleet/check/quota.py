"""The checker's own sums of quota: what every node's work uses, and which limit one more gang would break.

Added up from the units, apart from the algebra that the planner uses: `max` and max-jobs at every node from the leaf to
the root, `min` for work that may not be preempted, what others do not lend, and what one user may have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fleet.check.units import counted
from fleet.check.users import count_user, user_limit_broken
from fleet.check.violation import Rule, Violation
from fleet.model.gang import Key, gang_key
from fleet.model.unit import Unit
from fleet.quota.guarantee import capacity, guarantees, with_potential
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Snapshot


class Sums:
    """What is charged at the nodes of one snapshot's tree; at first all that holds room. `users`: each user's, too."""

    def __init__(self, snapshot: Snapshot, tree: QuotaTree, *, users: bool = False) -> None:
        self._tree = tree
        total = capacity(snapshot.members, snapshot.backlog.holding.values())
        outside: Counter[str] = Counter()
        for held in snapshot.backlog.held.values():
            if held.unit.leaf is None:
                outside.update({name: amount * held.count for name, amount in counted(held.unit).items()})
        self._promises = guarantees(tree, with_potential(total, snapshot.members), outside)
        self._used: dict[tuple[str, str], int] = {}
        self._firm: dict[tuple[str, str], int] = {}  # by work that may not be preempted
        self._by_user: dict[tuple[str, str, str], int] | None = {} if users and tree.user_caps else None
        self._amounts: dict[Key, dict[str, int]] = {}
        self._lines: dict[str, list[str]] = {}
        for held in snapshot.backlog.held.values():
            self.charge(held.unit, held.count)

    def charge(self, unit: Unit, times: int = 1) -> None:
        """A unit at its leaf and every node above it; one outside quota nowhere."""
        if unit.leaf is None:
            return
        for node in self._line(unit.leaf):
            for name, amount in self._counted(unit).items():
                self._used[node, name] = self._used.get((node, name), 0) + amount * times
                if not unit.preemptible:
                    self._firm[node, name] = self._firm.get((node, name), 0) + amount * times
        if self._by_user is not None:
            count_user(self._tree, unit, self._by_user, times)

    def broken(self, unit: Unit) -> Violation | None:
        """The limit that the unit would break beside all that is charged."""
        if unit.leaf is None:
            return None
        amounts, line = self._counted(unit), self._line(unit.leaf)
        for node in line:
            for name, limit in self._tree.nodes[node].max.items():
                if amounts.get(name) and self._used.get((node, name), 0) + amounts[name] > limit:
                    return Violation(Rule.MAX, unit.id, f"{unit.name} raises {name} of {node} above {limit}")
        if not unit.preemptible:
            for node in line:
                for name in sorted(self._promises.resources & set(amounts)):
                    limit = self._promises.min[node].get(name, 0)
                    if amounts[name] and self._firm.get((node, name), 0) + amounts[name] > limit:
                        text = f"{unit.name} may not be preempted and raises {name} of {node} above min {limit}"
                        return Violation(Rule.MIN, unit.id, text)
        if self._promises.kept:
            for node in line:
                fleet = self._promises.fleet if node == self._tree.root else {}
                limits = dict(self._tree.nodes[node].max)
                limits |= {name: min(there, limits.get(name, there)) for name, there in fleet.items()}
                for name, limit in limits.items():
                    before = self._taken(node, name, ())
                    after = self._taken(node, name, line, amounts.get(name, 0))
                    if after > max(before, limit):
                        text = f"{unit.name} uses {name} that others below {node} do not lend"
                        return Violation(Rule.LENT, unit.id, text)
        return user_limit_broken(self._tree, unit, self._by_user) if self._by_user is not None else None

    def _counted(self, unit: Unit) -> Mapping[str, int]:
        gang = gang_key(unit.components)
        if gang not in self._amounts:
            self._amounts[gang] = counted(unit)
        return self._amounts[gang]

    def _line(self, leaf: str) -> Sequence[str]:
        """The nodes at which work of `leaf` counts; of a leaf that is gone, those above it that are left."""
        known = self._lines.get(leaf)
        if known is None:
            nodes, at = self._tree.nodes, leaf
            while at and at not in nodes:
                at = at.rpartition("/")[0]
            known = self._lines[leaf] = list(self._tree.ancestors(at))
        return known

    def _taken(self, node: str, name: str, line: Sequence[str], more: int = 0) -> int:
        """What is used or kept below a node, with `more` charged along `line`."""
        children = self._tree.nodes[node].children
        used = self._used
        own = used.get((node, name), 0) - sum(used.get((child, name), 0) for child in children)
        if node == (line[0] if line else None):
            own += more
        inner = own + sum(self._taken(child, name, line, more) for child in children)
        return max(self._promises.kept.get(node, {}).get(name, 0), inner)
