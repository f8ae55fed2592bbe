"""The checker's own sums of quota: what every node's work uses, and which limit one more gang would break.

Added up from the units, apart from the algebra that the planner uses: `max` and max-jobs at every node from the leaf to
the root, `min` for work that may not be preempted, what others do not lend, and what one user may have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleet.check.violation import Rule, Violation
from fleet.model.gang import Key, gang_key
from fleet.model.unit import Unit
from fleet.quota.guarantee import capacity, guarantees, with_potential
from fleet.quota.tree import MAX_JOBS
from fleet.snapshot import Snapshot

_TEXTS = {
    Rule.MAX: "{unit} raises {name} of {node} above {limit}",
    Rule.MIN: "{unit} may not be preempted and raises {name} of {node} above min {limit}",
    Rule.USER_MAX: "{unit} raises {name} of user {user} in {node} above {limit}",
}


@dataclass(frozen=True, slots=True)
class _Account:
    """One sum that a unit counts in: of all work below a node, of all that may not be preempted, or of one user."""

    rule: Rule
    node: str
    user: str
    limits: Mapping[str, int]
    used: dict[str, int]


class Sums:
    """What is charged at the nodes of one snapshot's tree; at first all that holds room. Without a tree, nothing is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tree = tree = snapshot.tree
        self._accounts: dict[tuple[Rule, str, str], _Account] = {}
        self._of: dict[tuple[str | None, str, bool], Sequence[_Account]] = {}
        self._amounts: dict[Key, Mapping[str, int]] = {}
        if tree is not None:
            total = capacity(snapshot.members, snapshot.backlog.holding.values())
            outside: Counter[str] = Counter()
            for held in snapshot.backlog.held.values():
                if held.unit.leaf is None:
                    outside.update({name: n * held.count for name, n in self._counted(held.unit).items()})
            self._promises = guarantees(tree, with_potential(total, snapshot.members), outside)
            self._keeping = {above for path in self._promises.kept for above in tree.ancestors(path)}
            for held in snapshot.backlog.held.values():
                self.charge(held.unit, held.count)

    def charge(self, unit: Unit, times: int = 1) -> None:
        """Count a unit at its leaf and every node above it; one outside quota nowhere."""
        for account in self._counts_in(unit):
            for name, amount in self._counted(unit).items():
                account.used[name] = account.used.get(name, 0) + amount * times

    def broken(self, unit: Unit) -> Violation | None:
        """The limit that the unit would break beside all that is charged."""
        amounts = self._counted(unit)
        for account in self._counts_in(unit):
            for name, limit in account.limits.items():
                if amounts.get(name) and account.used.get(name, 0) + amounts[name] > limit:
                    text = _TEXTS[account.rule]
                    text = text.format(unit=unit.name, name=name, node=account.node, user=account.user, limit=limit)
                    return Violation(account.rule, unit.id, text)
        return self._unlent(unit)

    def allow(self, unit: Unit) -> bool:
        """Whether a unit that is charged breaks no limit."""
        self.charge(unit, -1)
        broken = self.broken(unit)
        self.charge(unit)
        return broken is None

    def _counts_in(self, unit: Unit) -> Sequence[_Account]:
        """The sums that work of its leaf, user and kind counts in; of a leaf that is gone, those above it."""
        key = (unit.leaf, unit.user, unit.preemptible)
        known = self._of.get(key)
        if known is None:
            line = self._line(unit)
            found = [self._account(Rule.MAX, node, "") for node in line]
            found += [self._account(Rule.MIN, node, "") for node in line if not unit.preemptible]
            capping = self._tree.user_caps if self._tree is not None and unit.user else ()
            found += [self._account(Rule.USER_MAX, node, unit.user) for node in line if node in capping]
            known = self._of[key] = found
        return known

    def _account(self, rule: Rule, node: str, user: str) -> _Account:
        key = (rule, node, user)
        if key not in self._accounts:
            assert self._tree is not None
            limits = self._tree.nodes[node].max
            if rule is Rule.MIN:
                limits = {name: self._promises.min[node].get(name, 0) for name in sorted(self._promises.resources)}
            elif rule is Rule.USER_MAX:
                limits = self._tree.user_caps[node].of(user)
            self._accounts[key] = _Account(rule, node, user, limits, {})
        return self._accounts[key]

    def _line(self, unit: Unit) -> Sequence[str]:
        if self._tree is None or unit.leaf is None:
            return ()
        at = unit.leaf
        while at and at not in self._tree.nodes:
            at = at.rpartition("/")[0]
        return self._tree.ancestors(at)

    def _counted(self, unit: Unit) -> Mapping[str, int]:
        """What a unit counts for: its pods' requests added up, and one job, whatever they ask for by that name."""
        gang = gang_key(unit.components)
        total = self._amounts.get(gang)
        if total is None:
            sums: dict[str, int] = {}
            for part in unit.components:
                for name, amount in part.requests.items_:
                    sums[name] = sums.get(name, 0) + max(0, amount) * max(0, part.replicas)
            total = self._amounts[gang] = {**sums, "pods": 0, MAX_JOBS: 1}
        return total

    def _unlent(self, unit: Unit) -> Violation | None:
        """As `broken`, where what nodes do not lend counts as used by them."""
        if self._tree is None or not self._keeping:
            return None
        amounts, line = self._counted(unit), self._line(unit)
        for node in line:
            limits = dict(self._tree.nodes[node].max) if node in self._keeping else {}
            if node == self._tree.root:
                limits |= {name: min(n, limits.get(name, n)) for name, n in self._promises.fleet.items()}
            for name, limit in limits.items():
                if amounts.get(name):
                    after = self._taken(node, name, line, amounts[name])
                    if after > limit and after > self._taken(node, name, (), 0):
                        text = f"{unit.name} uses {name} that others below {node} do not lend"
                        return Violation(Rule.LENT, unit.id, text)
        return None

    def _taken(self, node: str, name: str, line: Sequence[str], more: int) -> int:
        """What is used or kept below a node, with `more` charged along `line`."""
        assert self._tree is not None
        used = self._used(node, name) + (more if node in line else 0)
        if node not in self._keeping:
            return used
        inner = used
        for child in self._tree.nodes[node].children:
            inner += self._taken(child, name, line, more) - self._used(child, name) - (more if child in line else 0)
        return max(self._promises.kept.get(node, {}).get(name, 0), inner)

    def _used(self, node: str, name: str) -> int:
        return self._account(Rule.MAX, node, "").used.get(name, 0)
