"""The checker: refuses every plan that breaks a rule. Written from the rules, apart from the planner; README.md."""

from fleet.core.check.check import check
from fleet.core.check.violation import Rule, Violation

__all__ = ["Rule", "Violation", "check"]
