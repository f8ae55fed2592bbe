"""Reasons that are known of a unit before anything is placed."""

from __future__ import annotations

from fleet.model.reason import Code, Reason, instant
from fleet.model.unit import Component, Unit
from fleet.quota.tree import QuotaTree

_MOST_REPLICAS = 1_000_000
_MOST_AMOUNT = 1 << 62


def defect(components: tuple[Component, ...]) -> tuple[str, str] | None:
    """What makes a gang impossible to decide about, as (field, problem), or None."""
    if not components:
        return ("components", "a gang needs at least one component")
    for index, component in enumerate(components):
        where = f"components[{index}]"
        if component.replicas < 0:
            return (f"{where}.replicas", f"{component.replicas} is below zero")
        if component.replicas > _MOST_REPLICAS:
            return (f"{where}.replicas", f"{component.replicas} is above {_MOST_REPLICAS}")
        for name, amount in component.requests.items_:
            if not 0 <= amount <= _MOST_AMOUNT:
                return (f"{where}.requests[{name}]", f"{amount} is not between 0 and 2^62")
    if not any(component.replicas for component in components):
        return ("components", "a gang needs at least one pod")
    return None


def early(unit: Unit, bad: tuple[str, str] | None, tree: QuotaTree | None, now: float) -> Reason | None:
    """The reason that is known before anything is placed, or None. `bad`: the `defect` of its components."""
    if bad is not None:
        return Reason(Code.BAD_UNIT, {"field": bad[0], "problem": bad[1]})
    if unit.suspended:
        return Reason(Code.SUSPENDED)
    if unit.held and unit.waits_turn:
        return Reason(Code.NOT_ITS_TURN, {"why": unit.held_why})
    if unit.held:
        return Reason(Code.HELD, {"why": unit.held_why} if unit.held_why else {})
    if unit.backoff_until is not None and unit.backoff_until > now:
        numbers: dict[str, str | int] = {"until": instant(unit.backoff_until), "attempts": unit.attempts}
        return Reason(Code.BACK_OFF, numbers | ({"why": unit.failed_why} if unit.failed_why else {}))
    if unit.leaf is not None and (tree is None or not tree.is_leaf(unit.leaf)):
        return Reason(Code.NO_LEAF, {"leaf": unit.leaf, "tree": "none" if tree is None else tree.root})
    return None
