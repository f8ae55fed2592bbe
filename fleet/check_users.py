"""The checker's rule about limits per user, written apart from the algebra of quota.

What one user has below a node that caps users never rises above the cap: added up again from the units, at every such
node of a unit's line. Work of nobody in particular is not capped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.check_units import counted
from fleet.model.unit import Phase, Unit
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Snapshot
from fleet.violation import Rule, Violation

_Used = dict[tuple[str, str, str], int]  # by node, user and resource


def users(snapshot: Snapshot, placed: Mapping[str, str]) -> Iterable[Violation]:
    """Units among `placed`, in the plan's order, that raise what their user has above a limit."""
    tree = snapshot.tree
    if tree is None or not tree.user_caps:
        return
    used: _Used = {}
    for unit in snapshot.units.values():
        if unit.phase is not Phase.WAITING:
            _count(tree, unit, used)
    for key in placed:
        unit = snapshot.units[key]
        if unit.phase is Phase.WAITING:
            broken = _broken(tree, unit, used)
            if broken is None:
                _count(tree, unit, used)
            else:
                yield broken


def _capping(tree: QuotaTree, unit: Unit) -> list[str]:
    """The nodes at or above its leaf that cap its user; of a leaf that is gone, those above it."""
    if unit.leaf is None or not unit.user:
        return []
    return [node for node in tree.user_caps if unit.leaf == node or unit.leaf.startswith(node + "/")]


def _count(tree: QuotaTree, unit: Unit, used: _Used) -> None:
    for node in _capping(tree, unit):
        for name, amount in counted(unit).items():
            used[node, unit.user, name] = used.get((node, unit.user, name), 0) + amount


def _broken(tree: QuotaTree, unit: Unit, used: _Used) -> Violation | None:
    asks = counted(unit)
    for node in _capping(tree, unit):
        for name, limit in tree.user_caps[node].of(unit.user).items():
            if asks.get(name) and used.get((node, unit.user, name), 0) + asks[name] > limit:
                text = f"{unit.name} raises {name} of user {unit.user} in {node} above {limit}"
                return Violation(Rule.USER_MAX, unit.id, text)
    return None
