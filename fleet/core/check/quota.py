"""The checker's own sums of quota: the usage of every node, and the limit that one more gang would break.

The sums come from the units, apart from the algebra of the planner. Which limits there are, and what each binds, is in
the table of both (fleet/core/quota/limits.py). They count at every node from the leaf to the root, and so do the lend
limits of other nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from fleet.core.check.violation import Rule, Violation
from fleet.core.model.unit import Unit
from fleet.core.quota.guarantee import capacity, guarantees, with_potential
from fleet.core.quota.limits import COUNTS, FIRM, JOB_COUNTS, LIMITS, LimitEntry
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot

_ONE_JOB = {"pods": 0, **dict.fromkeys(JOB_COUNTS, 1)}
_ONE_START = dict.fromkeys(COUNTS, 1)
_TEXTS = {
    Rule.MAX: "{unit} raises {name} of {node} above {limit}",
    Rule.MIN: "{unit} may not be preempted and raises {name} of {node} above min {limit}",
    Rule.USER_MAX: "{unit} raises {name} of user {user} in {node} above {limit}",
}


def _rule_of(entry: LimitEntry) -> Rule:
    if entry.by_user:
        return Rule.USER_MAX
    return Rule.MIN if entry.firm else Rule.MAX


_FIGURES = {rule: [entry.figures for entry in LIMITS.values() if _rule_of(entry) is rule] for rule in _TEXTS}


class _Account(NamedTuple):
    """One sum that a unit counts in: of all work below a node (Rule.MAX), of the work there that may not be preempted
    (Rule.MIN), or of one user's work there (Rule.USER_MAX)."""

    rule: Rule
    node: str
    user: str = ""


class ChargeSums:
    """The charges at the nodes of one snapshot's tree; at first of all units that hold room. Without a tree, none."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tree = tree = snapshot.tree or QuotaTree("", {})
        self._used: dict[_Account, Counter[str]] = defaultdict(Counter)
        self._limits = cache(self._limits_of)
        self._accounts = cache(self._accounts_of)
        outside: Counter[str] = Counter()
        for held in snapshot.backlog.holders.values():
            self.charge(held.unit, held.count)
            if held.unit.leaf is None:
                outside.update({name: n * held.count for name, n in _counted(held.unit).items()})
        total = capacity(snapshot.members, snapshot.backlog.holding.values())
        self._promises = guarantees(tree, with_potential(total, snapshot.members), outside)
        self._bound = sorted(self._promises.resources)
        self._keeping = {above for path in self._promises.reserves for above in tree.ancestors(path)}

    def charge(self, unit: Unit, times: int = 1) -> None:
        """Count a unit at its leaf and every node above it; a unit outside quota counts nowhere."""
        self._charge(unit, _counted(unit), times)

    def broken(self, unit: Unit) -> Violation | None:
        """The limit that the unit would break beside all that is charged."""
        return self._broken(unit, _counted(unit))

    def start(self, unit: Unit) -> Violation | None:
        """Charge a unit, unless it breaks a limit: that one."""
        amounts = _counted(unit) | _ONE_START
        broken = self._broken(unit, amounts)
        if broken is None:
            self._charge(unit, amounts, 1)
        return broken

    def _charge(self, unit: Unit, amounts: Mapping[str, int], times: int) -> None:
        for account in self._accounts(unit.leaf, unit.user, unit.preemptible):
            used = self._used[account]
            for name, amount in amounts.items():
                used[name] += amount * times

    def _broken(self, unit: Unit, amounts: Mapping[str, int]) -> Violation | None:
        for account in self._accounts(unit.leaf, unit.user, unit.preemptible):
            used = self._used[account]
            for name, limit in self._limits(account).items():
                if amounts.get(name) and used[name] + amounts[name] > limit:
                    text = _TEXTS[account.rule]
                    text = text.format(unit=unit.name, name=name, node=account.node, user=account.user, limit=limit)
                    return Violation(account.rule, unit.id, text)
        return self._unlent(unit) if self._keeping else None

    def allow(self, unit: Unit) -> bool:
        """Whether a unit that is charged breaks no limit."""
        self.charge(unit, -1)
        broken = self.broken(unit)
        self.charge(unit)
        return broken is None

    def _accounts_of(self, leaf: str | None, user: str, preemptible: bool) -> Sequence[_Account]:
        """The sums that work of a leaf, user and kind counts in."""
        line = self._line(leaf)
        found = [_Account(Rule.MAX, node) for node in line]
        found += [_Account(Rule.MIN, node) for node in line if not preemptible]
        return found + [_Account(Rule.USER_MAX, node, user) for node in line if user and node in self._tree.user_caps]

    def _line(self, leaf: str | None) -> Sequence[str]:
        """The nodes from a leaf to the root; of a leaf that is gone, the nodes above it."""
        at = leaf or ""
        while at and at not in self._tree.nodes:
            at = at.rpartition("/")[0]
        return self._tree.ancestors(at)

    def _limits_of(self, account: _Account) -> Mapping[str, int]:
        promised = self._promises.min.get(account.node, {})
        bound = {name: promised.get(name, 0) for name in self._bound}
        limits: dict[str, int] = {}
        for figures in _FIGURES[account.rule]:
            limits.update(figures(self._tree, account.node, account.user, bound))
        return {charge.removeprefix(FIRM): limit for charge, limit in limits.items()}

    def _unlent(self, unit: Unit) -> Violation | None:
        """As `broken`, where amounts that nodes do not lend count as used by them."""
        amounts = _counted(unit)
        limits_of_line: list[tuple[str, str, int]] = []
        for node in self._line(unit.leaf):
            limits = dict(self._tree.nodes[node].max) if node in self._keeping else {}
            if node == self._tree.root:
                limits |= {name: min(n, limits.get(name, n)) for name, n in self._promises.fleet.items()}
            limits_of_line += [(node, name, limit) for name, limit in limits.items() if amounts.get(name)]
        before = [self._taken(node, name) for node, name, _ in limits_of_line]
        self.charge(unit)
        after = [self._taken(node, name) for node, name, _ in limits_of_line]
        self.charge(unit, -1)
        for (node, name, limit), had, has in zip(limits_of_line, before, after, strict=True):
            if has > max(limit, had):
                return Violation(Rule.LENT, unit.id, f"{unit.name} uses {name} that others below {node} do not lend")
        return None

    def _taken(self, node: str, name: str) -> int:
        """The amount of a resource that is used or kept below a node."""
        used = self._used[_Account(Rule.MAX, node)][name]
        if node not in self._keeping:
            return used
        children = self._tree.nodes[node].children
        idle = sum(self._taken(child, name) - self._used[_Account(Rule.MAX, child)][name] for child in children)
        return max(self._promises.reserves.get(node, {}).get(name, 0), used + idle)


def _counted(unit: Unit) -> dict[str, int]:
    """The amounts that a unit counts for: the requests of its pods, added up, and one of each count."""
    total: dict[str, int] = {}
    for part in unit.components:
        for name, amount in part.requests.items_:
            total[name] = total.get(name, 0) + max(0, amount) * max(0, part.replicas)
    return total | _ONE_JOB
