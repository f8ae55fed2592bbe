"""LabelSelector objects: the faults that a kube-apiserver finds in one, in its words."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import forbidden, invalid, required
from api.engine.status import Cause
from fleet.values.names import label_value_problems, qualified_name_problems
from fleet.values.ports import Body


def selector_faults(at: str, selector: Body) -> Sequence[Cause]:
    """The faults of the selector at the path `at`."""
    causes: list[Cause] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        causes += [invalid(f"{at}.matchLabels", key, text) for text in qualified_name_problems(key)]
        causes += [invalid(f"{at}.matchLabels", value, text) for text in label_value_problems(value or "")]
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        causes += _expression(f"{at}.matchExpressions[{index}]", expression or {})
    return causes


def _expression(at: str, expression: Body) -> Sequence[Cause]:
    causes: list[Cause] = []
    values = [value or "" for value in expression.get("values") or ()]
    match expression.get("operator"):
        case "In" | "NotIn":
            if not values:
                causes.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden(f"{at}.values", why))
        case other:
            causes.append(invalid(f"{at}.operator", other or "", "not a valid selector operator"))
    key = expression.get("key") or ""
    causes += [invalid(f"{at}.key", key, text) for text in qualified_name_problems(key)]
    for index, value in enumerate(values):
        causes += [invalid(f"{at}.values[{index}]", value, text) for text in label_value_problems(value)]
    return causes
