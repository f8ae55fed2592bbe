"""x-kubernetes-validations: rules in CEL, compiled when the schema is.

A rule that does not compile must not make its kind unwritable, so it is kept with its error, which whoever accepts
the schema reports, and it checks nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import cel

from fleet.engine.status import Cause


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `transition`: it speaks of `oldSelf`, and is asked only where there is an old value."""

    text: str
    message: str
    message_expression: Any
    reason: str
    field_path: str
    transition: bool
    optional_old: bool
    program: Any
    error: str = ""


def compile_rule(raw: dict[str, Any]) -> Rule:
    text = str(raw.get("rule", ""))
    program: Any = None
    expression: Any = None
    error = ""
    transition = False
    try:
        program = cel.compile(text)
        transition = "oldSelf" in program.variables()
        if raw.get("messageExpression"):
            expression = cel.compile(str(raw["messageExpression"]))
    except Exception as problem:  # the parser of the library raises several types
        error = str(problem)
        program = None
    return Rule(
        text=text,
        message=raw.get("message") or "",
        message_expression=expression,
        reason=raw.get("reason") or "FieldValueInvalid",
        field_path=raw.get("fieldPath") or "",
        transition=transition,
        optional_old=bool(raw.get("optionalOldSelf")),
        program=program,
        error=error,
    )


def evaluate(rule: Rule, value: Any, old: Any, has_old: bool, type_name: str, path: str) -> Cause | None:
    """None when the rule holds (or does not apply)."""
    if rule.program is None or (rule.transition and not has_old and not rule.optional_old):
        return None
    variables: dict[str, Any] = {"self": value}
    if rule.transition:
        if rule.optional_old:
            variables["oldSelf"] = cel.OptionalValue.of(old) if has_old else cel.OptionalValue.none()
        else:
            variables["oldSelf"] = old
    try:
        held = rule.program.execute(variables)
    except Exception as problem:  # a rule that fails to evaluate refuses, as it does in a kube-apiserver
        text = f"{_said(problem)} evaluating rule: {rule.message or rule.text}"
        return Cause(path or "<nil>", f'Invalid value: "{type_name}": {text}')
    if held is True:
        return None
    message = rule.message or f"failed rule: {rule.text}"
    if rule.message_expression is not None:
        try:
            said = rule.message_expression.execute(variables)
            if isinstance(said, str) and said.strip() and "\n" not in said:
                message = said
        except Exception:  # the fixed message stands in for one that cannot be computed
            pass
    where = f"{path}{rule.field_path}".lstrip(".") if rule.field_path else path
    return Cause(where or "<nil>", _worded(rule.reason, value, message), rule.reason)


def _worded(reason: str, value: Any, message: str) -> str:
    match reason:
        case "FieldValueRequired":
            return f"Required value: {message}"
        case "FieldValueForbidden":
            return f"Forbidden: {message}"
    word = "Duplicate value" if reason == "FieldValueDuplicate" else "Invalid value"
    if isinstance(value, dict | list):
        return f"{word}: {message}"
    return f"{word}: {json.dumps(value, ensure_ascii=False)}: {message}"


def _said(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"no such key: {problem.args[0]}"
    return " ".join(str(problem).split())
