"""The checker: refuses every plan that breaks a rule. Written from the rules, apart from the planner; README.md."""

from fleet.check.check import check
from fleet.check.violation import Rule, Violation

__all__ = ["Rule", "Violation", "check"]
