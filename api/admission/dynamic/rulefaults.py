"""The faults of the parts that webhooks and policies share: rules, conditions, selectors. Worded as a kube-apiserver
words them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from api.admission.causes import duplicate, invalid, required, unsupported
from api.admission.dynamic.expressions import MUST_HOLD, Scope, fault_of
from api.engine.status import Cause
from api.engine.validate import value_text
from fleet.values.cel.types import Type
from fleet.values.names import path_segment_problems, qualified_name_problems
from fleet.values.ports import Body

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_SCOPES = ("*", "Cluster", "Namespaced")
_CONDITIONS_MAX = 64
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def one_of(field: str, value: Any, allowed: Sequence[str]) -> list[Cause]:
    """Nothing for a value that is allowed, or that is not there."""
    return [] if value is None or value in allowed else [unsupported(field, value, allowed)]


def label_1035_problems(text: str) -> list[str]:
    found = [] if len(text) <= 63 else ["must be no more than 63 characters"]
    return found if _LABEL_1035.match(text) else [*found, _LABEL_1035_TEXT]


def strings(value: Any) -> list[str]:
    return [item or "" for item in value or ()]


def rule_faults(at: str, rule: Body) -> list[Cause]:
    """The faults of a RuleWithOperations."""
    causes: list[Cause] = []
    operations = strings(rule.get("operations"))
    if not operations:
        causes.append(required(f"{at}.operations"))
    if len(operations) > 1 and "*" in operations:
        causes.append(invalid(f"{at}.operations", operations, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(operations):
        causes += one_of(f"{at}.operations[{index}]", operation, OPERATIONS)
    for field, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = strings(rule.get(field))
        if not values:
            causes.append(required(f"{at}.{field}"))
        if len(values) > 1 and "*" in values:
            causes.append(invalid(f"{at}.{field}", values, f"if '*' is present, must not specify other {words}"))
        if field == "apiVersions":
            causes += [required(f"{at}.{field}[{index}]") for index, value in enumerate(values) if not value]
    return [
        *causes,
        *_resource_faults(f"{at}.resources", strings(rule.get("resources"))),
        *one_of(f"{at}.scope", rule.get("scope"), _SCOPES),
    ]


def _resource_faults(at: str, resources: list[str]) -> list[Cause]:
    causes = [] if resources else [required(at)]
    whole: set[str] = set()  # x of x/*
    everywhere: set[str] = set()  # x of */x
    plain = False
    for index, resource in enumerate(resources):
        if not resource:
            causes.append(required(f"{at}[{index}]"))
            continue
        name, slash, below = resource.partition("/")
        if not slash:
            plain = resource != "*"
            continue
        if name in whole:
            causes.append(invalid(f"{at}[{index}]", resource, f"if '{name}/*' is present, must not specify {resource}"))
        if below in everywhere:
            why = f"if '*/{below}' is present, must not specify {resource}"
            causes.append(invalid(f"{at}[{index}]", resource, why))
        if below == "*":
            whole.add(name)
        if name == "*":
            everywhere.add(below)
    if len(resources) > 1 and "*/*" in resources:
        causes.append(invalid(at, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(at, resources, why))
    return causes


def named_rule_faults(at: str, rule: Body) -> list[Cause]:
    """The faults of a NamedRuleWithOperations."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, name in enumerate(strings(rule.get("resourceNames"))):
        causes += [invalid(f"{at}.resourceNames[{index}]", name, text) for text in path_segment_problems(name)]
        if name in seen:
            causes.append(duplicate(f"{at}.resourceNames[{index}]", name))
        seen.add(name)
    return [*causes, *rule_faults(at, rule)]


def condition_faults(at: str, conditions: Any, scope: Scope, before: Any = None) -> list[Cause]:
    """The faults of matchConditions. `before`: the stored ones, which are not looked at again while they stay."""
    items: list[Body] = [item or {} for item in conditions or ()]
    if before is not None and items == before:
        return []
    causes = []
    if len(items) > _CONDITIONS_MAX:
        text = f"Too many: {len(items)}: must have at most {_CONDITIONS_MAX} items"
        causes.append(Cause(at, text, "FieldValueTooMany"))
    names: set[str] = set()
    for index, condition in enumerate(items[: _CONDITIONS_MAX + 1]):
        where, name = f"{at}[{index}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        causes += expression_faults(f"{where}.expression", text, scope, MUST_HOLD)
        if not name:
            causes.append(required(f"{where}.name"))
            continue
        causes += [invalid(f"{where}.name", name, problem) for problem in qualified_name_problems(name)]
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        names.add(name)
    return causes


def expression_faults(at: str, text: str, scope: Scope, results: Sequence[Type], why_required: str = "") -> list[Cause]:
    """The fault of one expression, if it has any."""
    if not text.strip():
        return [required(at, why_required)]
    fault = fault_of(text, scope, results)
    return [Cause(at, f"Invalid value: {value_text(text)}: {fault}", "FieldValueInvalid")] if fault else []
