"""The rules of a gang as its binding keeps them, and the domain that was chosen for it; to values and back.

A binding keeps the one rule that a job can ask for in the words of the job: an annotation with the label.
"""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.core.model.rule import PlacementRule, Rules
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_TOPOLOGY


def rules_of(binding: Body) -> Rules:
    """The rules of its gang."""
    level = b.annotation(binding, ANNOTATION_TOPOLOGY)
    return (PlacementRule(level),) if level else ()


def annotated(rules: Rules) -> str:
    """The annotation that says these rules, at most one; "" for none."""
    return rules[0].level if rules else ""


def chosen_domain(binding: Body) -> dict[str, str]:
    """The labels of the nodes that its gang was sent to, by the levels of its rules; empty where none was chosen."""
    value = b.annotation(binding, ANNOTATION_DOMAIN)
    return {rule.level: value for rule in rules_of(binding)} if value else {}
