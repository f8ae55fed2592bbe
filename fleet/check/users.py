"""The checker's rule about limits per user, written apart from the algebra of quota.

What one user has below a node that caps users never rises above the cap: added up again from the units, at every such
node of a unit's line. Work of nobody in particular is not capped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.check.units import counted
from fleet.check.violation import Rule, Violation
from fleet.model.unit import Phase, Unit
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Snapshot

Used = dict[tuple[str, str, str], int]  # by node, user and resource


def users(snapshot: Snapshot, placed: Mapping[str, str]) -> Iterable[Violation]:
    """Units among `placed`, in the plan's order, that raise what their user has above a limit."""
    tree = snapshot.tree
    if tree is None or not tree.user_caps:
        return
    used: Used = {}
    for unit in snapshot.units.values():
        if unit.phase is not Phase.WAITING:
            count_user(tree, unit, used)
    for key in placed:
        unit = snapshot.units[key]
        if unit.phase is Phase.WAITING:
            broken = user_limit_broken(tree, unit, used)
            if broken is None:
                count_user(tree, unit, used)
            else:
                yield broken


def _capping(tree: QuotaTree, unit: Unit) -> list[str]:
    """The nodes at or above its leaf that cap its user; of a leaf that is gone, those above it."""
    if unit.leaf is None or not unit.user:
        return []
    return [node for node in tree.user_caps if unit.leaf == node or unit.leaf.startswith(node + "/")]


def count_user(tree: QuotaTree, unit: Unit, used: Used, times: int = 1) -> None:
    """Add what a unit counts for to its user's, at every node that caps users."""
    for node in _capping(tree, unit):
        for name, amount in counted(unit).items():
            used[node, unit.user, name] = used.get((node, unit.user, name), 0) + amount * times


def user_limit_broken(tree: QuotaTree, unit: Unit, used: Used) -> Violation | None:
    """The limit of its user that a unit would break beside what is used."""
    asks = counted(unit)
    for node in _capping(tree, unit):
        for name, limit in tree.user_caps[node].of(unit.user).items():
            if asks.get(name) and used.get((node, unit.user, name), 0) + asks[name] > limit:
                text = f"{unit.name} raises {name} of user {unit.user} in {node} above {limit}"
                return Violation(Rule.USER_MAX, unit.id, text)
    return None
