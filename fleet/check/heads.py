"""The checker's rule about heads: a head is a waiting unit that may start, the only one of its leaf.

Which unit has a right to become a head, and what may start beside it, is the planner's matter: no rule here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from fleet.check.units import may_start
from fleet.check.violation import Rule, Violation
from fleet.model.matching import member_bars
from fleet.model.plan import Head, Plan
from fleet.snapshot import Snapshot


def heads(snapshot: Snapshot, plan: Plan, starting: Container[str], now: float) -> Iterable[Violation]:
    """Every head of the plan that is unsound. `starting`: units that the plan starts."""
    firsts: dict[str | None, str] = {}
    for head in plan.heads:
        problem = _unsound(snapshot, head, now)
        unit = snapshot.units.get(head.unit)
        leaf = unit.leaf if unit is not None else None
        if not problem and head.unit in starting:
            problem = "is a head, but starts"
        if not problem and leaf in firsts:
            problem = f"is a head beside {firsts[leaf]} of the same leaf"
        if problem:
            yield Violation(Rule.HEAD_UNSOUND, head.unit, f"{head.unit} {problem}")
        else:
            firsts[leaf] = head.unit


def _unsound(snapshot: Snapshot, head: Head, now: float) -> str:
    unit, where = snapshot.units.get(head.unit), head.nomination.member
    if unit is None or not may_start(snapshot, unit, now):
        return "is a head, but could not start"
    member = snapshot.members.get(where)
    if where and (member is None or not member.ready or member_bars(unit, member)):
        return f"collects room in {where}, where it may not go"
    return ""
