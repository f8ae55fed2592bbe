"""The state that a gang takes along when it leaves a member: Karmada's `statePreservation`, read from its status there.

A rule names a JSON path and a label. The value stands on the binding until a newer one replaces it, since the eviction
task that carries it in Karmada ends here before the next attempt starts. Every eviction keeps it: to a program it makes
no difference whether a failure, a drain or another job cost it its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.bindings import binding as b
from fleet.values.jsonpath import BadPath, find
from fleet.values.names import label_value_problems, qualified_name_problems
from fleet.values.ports import Body
from fleet.values.untyped import mapping, pairs, rows, text
from fleet.wellknown import ANNOTATION_STATE
from fleet.wellknown.marks import fixed_for_tenants

ENVIRONMENT = "FLEET_STATE_"  # begins the name of each variable
RULES_MAX = 16
VALUE_MAX = 2048  # characters of one value; longer ones are not kept
_NO_NAME = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class PreservedValues:
    """The values that an eviction keeps, by label, and what became of the rules that gave none or no label."""

    values: Mapping[str, str]
    troubles: tuple[str, ...] = ()


def rules_of(failover: Mapping[str, Any], *, lost: bool) -> Sequence[Mapping[str, Any]]:
    """The rules of a policy's `failover`. `lost`: the member does not answer, and the rules of `cluster` come first."""
    found = {
        part: rows(mapping(mapping(failover.get(part)).get("statePreservation")).get("rules"))
        for part in ("application", "cluster")
    }
    first, second = ("cluster", "application") if lost else ("application", "cluster")
    return (found[first] or found[second])[:RULES_MAX]


def preserve(binding: Body, status: Mapping[str, Any] | None = None, *, lost: bool = False) -> PreservedValues:
    """The values that its rules find in the status of the copy: `status`, or else the last that the hub stored. A value
    of an earlier attempt stays where a rule finds none."""
    rules = rules_of(mapping(b.spec_of(binding).get("failover")), lost=lost)
    if not rules:
        return PreservedValues({})
    if status is None:
        status = mapping(next((item.get("status") for item in b.copies_of(binding)), None))
    values, troubles = dict(state_of(binding)), []
    for rule in rules:
        label, path = text(rule.get("aliasLabelName")), text(rule.get("jsonPath"))
        if label_problem(label):  # stored before admission looked at it
            troubles.append(f"{label or 'a rule without a label'}: {label_problem(label)}")
            continue
        value, trouble = _value(status, path)
        if value is None:
            troubles.append(f"{label}: {trouble}")
            continue
        values[label] = value
        if label_value_problems(value):
            troubles.append(f"{label}: its value fits no label, and travels as an annotation and as {variable(label)}")
    return PreservedValues(values, tuple(troubles))


def label_problem(label: str) -> str:
    """Why a rule may not use the label; "" when it may."""
    if problems := qualified_name_problems(label):
        return problems[0]
    return "Fleet or a queue reads this label" if fixed_for_tenants(label) else ""


def variable(label: str) -> str:
    """The environment variable of a label: FLEET_STATE_JOB_ID for example.com/job-id."""
    return ENVIRONMENT + _NO_NAME.sub("_", label.rpartition("/")[2].upper())


def state_of(binding: Body) -> dict[str, str]:
    """The kept values by label; none for a text that does not parse."""
    try:
        return pairs(orjson.loads(b.annotation(binding, ANNOTATION_STATE) or "{}"))
    except orjson.JSONDecodeError:
        return {}


def keep(binding: Body, values: Mapping[str, str]) -> bool:
    """Write the values down for the next attempt, in place; False when they stand there."""
    if not values or dict(values) == state_of(binding):
        return False
    said = orjson.dumps(dict(values), option=orjson.OPT_SORT_KEYS).decode()
    binding["metadata"].setdefault("annotations", {})[ANNOTATION_STATE] = said
    return True


def labels(values: Mapping[str, str]) -> dict[str, str]:
    """The values that a label can have."""
    return {label: value for label, value in values.items() if not label_value_problems(value)}


def environment(values: Mapping[str, str]) -> dict[str, str]:
    return {variable(label): value for label, value in values.items()}


def _value(status: Mapping[str, Any], path: str) -> tuple[str | None, str]:
    """The text at the path, or why there is none. A path starts at the status, as in Karmada; a path that names the
    status itself means the same."""
    try:
        found = find(status, path) or find({"status": status}, path)
    except BadPath as error:
        return None, str(error)
    if not found:
        return None, f"{path} leads to nothing in the status of the job"
    said = " ".join(_text(value) for value in found)
    if len(said) > VALUE_MAX:
        return None, f"the value at {path} has {len(said)} characters, and at most {VALUE_MAX} are kept"
    return said, ""


def _text(value: Any) -> str:
    """As kubectl prints it: a text without quotes, everything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
