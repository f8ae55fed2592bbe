"""x-kubernetes-validations: rules in CEL, compiled when the schema is, and run within a budget.

A rule that does not compile must not make its kind unwritable, so it is kept with its error, which the check of the
schema reports, and it checks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from api.engine.fieldpath import BadFieldPath, field_path
from api.engine.status import Cause, cut
from fleet.values.cel.program import CALL_COST_MAX, Budget, Program, compile_expression
from fleet.values.cel.shapes import type_of_schema
from fleet.values.cel.tree import BadExpression, ExpressionTooLarge
from fleet.values.cel.types import BOOL, STRING, Type, optional_of
from fleet.values.cel.values import NO_OVERLOAD, NONE, NoValue, Optional, OverBudget

COST_MAX = 10_000_000  # of all rules of one write, as in a kube-apiserver: some seconds of Python
COST_AT_ONCE = 100_000  # the same where somebody waits who must not wait long: an event loop
MESSAGE_BYTES_MAX = 5 * 1024
EXCEEDED = "validation failed due to running out of cost budget, no further validation rules will be run"
_CALL_EXCEEDED = "operation cancelled: actual cost limit exceeded"


# Does somebody wait who must not wait long? No argument: it would go through every function that makes a body, down to
# the two that count. Only objects/apart.at_once sets it, around one call that awaits nothing.
AT_ONCE: ContextVar[bool] = ContextVar("at_once", default=False)


class CostlyWrite(Exception):
    """A write costs more than may be spent where others wait: it must be made anew where nobody waits for it."""


class RuleBudget(Budget):
    """What all rules of one write may cost."""

    __slots__ = ("_at_once",)

    def __init__(self) -> None:
        self._at_once = AT_ONCE.get()
        super().__init__(COST_AT_ONCE if self._at_once else COST_MAX)

    def lacks(self) -> bool:
        """Is nothing left? Raises CostlyWrite where more is left elsewhere."""
        if self.balance <= 0 and self._at_once:
            raise CostlyWrite
        return self.balance <= 0


@dataclass(frozen=True, slots=True)
class CelRule:
    """A rule. `transition`: it reads `oldSelf`, and is asked only where there is an old value. `where`: `field_path`
    as a refusal names it. `error`, `message_error`: why a text cannot be compiled."""

    text: str
    message: str
    message_expression: Program | None
    reason: str
    where: str
    transition: bool
    optional_old: bool
    program: Program | None
    read: Callable[[Any], Any] | None = None  # a value in another form than JSON's: a time, a number
    error: str = ""
    message_error: str = ""

    @property
    def display_name(self) -> str:
        """As an error of its evaluation names it."""
        return self.message.strip() or self.text.strip()


def compile_rules(schema: Mapping[str, Any], root: bool = False) -> tuple[CelRule, ...]:
    """The rules of one place of a schema. `root`: of an object with metadata of its own."""
    given = schema.get("x-kubernetes-validations")
    if not given:
        return ()
    self_type = type_of_schema(schema, root=root)
    return tuple(_compiled(raw, schema, self_type) for raw in given)


def _compiled(raw: Mapping[str, Any], schema: Mapping[str, Any], self_type: Type | None) -> CelRule:
    text, optional = _text(raw, "rule"), raw.get("optionalOldSelf") is True
    program = expression = None
    error = message_error = ""
    if self_type is None:
        error = "the schema is too large, or has no type that CEL can look at"
    else:
        names = {"self": self_type, "oldSelf": optional_of(self_type) if optional else self_type}
        program, error = _program(text, names, BOOL, "compilation failed: ", "cel expression must evaluate to a bool")
        words = "messageExpression compilation failed: ", "messageExpression must evaluate to a string"
        if program is not None and raw.get("messageExpression"):
            expression, message_error = _program(_text(raw, "messageExpression"), names, STRING, *words)
    where = ""
    if raw.get("fieldPath"):
        try:
            where = field_path(_text(raw, "fieldPath"), schema)
        except BadFieldPath:  # one that was stored before it was checked names the place of the rule
            pass
    return CelRule(
        text=text,
        message=_text(raw, "message"),
        message_expression=expression,
        reason=_text(raw, "reason") or "FieldValueInvalid",
        where=where,
        transition=program is not None and "oldSelf" in program.uses,
        optional_old=optional,
        program=program,
        read=self_type.shape.convert if self_type is not None and self_type.shape is not None else None,
        error=error,
        message_error=message_error,
    )


def _program(
    text: str, names: Mapping[str, Type], result: Type, failed: str, otherwise: str
) -> tuple[Program | None, str]:
    try:
        program = compile_expression(text, names)
    except ExpressionTooLarge as problem:
        return None, str(problem)
    except BadExpression as problem:
        return None, f"{failed}{problem}"
    return (program, "") if program.type is result or program.type.kind == result.kind else (None, otherwise)


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def evaluate(
    rules: Sequence[CelRule],
    value: Any,
    old: Any,
    type_name: str,
    path: str,
    budget: RuleBudget,
    unchanged: Callable[[], bool] = lambda: False,
) -> list[Cause]:
    """The refusals of the rules of one place, in their order. When the budget does not last, that is the last of it.

    `unchanged`: is the value what it was? Such a value keeps what a rule that came later has against it."""
    causes: list[Cause] = []
    for rule in rules:
        if rule.program is None or (rule.transition and old is None and not rule.optional_old):
            continue
        where = path or "<nil>"
        if budget.lacks():
            budget.balance = -1
            return [*causes, Cause(where, f'Invalid value: "{type_name}": {EXCEEDED}')]
        before = budget.balance
        try:
            outcome = rule.program.evaluate(_bindings(rule, value, old), budget)
        except OverBudget:
            budget.balance = -1
            budget.lacks()
            said = EXCEEDED
            if before >= CALL_COST_MAX:
                ended = "no further validation rules will be run due to call cost exceeds limit for rule"
                said = f"'{_CALL_EXCEEDED}': {ended}: {rule.display_name}"
            return [*causes, Cause(where, f'Invalid value: "{type_name}": {said}')]
        except NoValue as fault:  # a rule that has no value refuses, as it does in a kube-apiserver
            causes.append(Cause(where, f'Invalid value: "{type_name}": {_said(fault, rule)}'))
            continue
        if outcome is not True and (rule.transition or not unchanged()):
            causes.append(_refusal(rule, value, old, path, budget))
    return causes


def _bindings(rule: CelRule, value: Any, old: Any) -> dict[str, Any]:
    if rule.read is not None:
        value, old = rule.read(value), None if old is None else rule.read(old)
    if not rule.optional_old:
        return {"self": value, "oldSelf": old}
    return {"self": value, "oldSelf": NONE if old is None else Optional((old,))}


def _said(fault: NoValue, rule: CelRule) -> str:
    if str(fault).startswith(NO_OVERLOAD):
        operator = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{fault}': {operator}: {rule.display_name}"
    return f"{cut(str(fault))} evaluating rule: {rule.display_name}"


def _refusal(rule: CelRule, value: Any, old: Any, path: str, budget: RuleBudget) -> Cause:
    message = rule.message.strip() or f"failed rule: {rule.text.strip()}"
    if rule.message_expression is not None:
        try:
            said = rule.message_expression.evaluate(_bindings(rule, value, old), budget)
            said = said.strip() if isinstance(said, str) else ""
            if said and "\n" not in said and len(said.encode()) <= MESSAGE_BYTES_MAX:
                message = said
        except NoValue:  # the fixed message stands in for one that cannot be computed
            budget.lacks()
    where = f"{path}.{rule.where}" if path and rule.where else path or rule.where
    return Cause(where or "<nil>", _worded(rule.reason, value, message), rule.reason)


def _worded(reason: str, value: Any, message: str) -> str:
    match reason:
        case "FieldValueRequired":
            return f"Required value: {message}"
        case "FieldValueForbidden":
            return f"Forbidden: {message}"
    shown = "" if isinstance(value, dict | list) else f": {cut(json.dumps(value, ensure_ascii=False))}"
    return f"Duplicate value{shown}" if reason == "FieldValueDuplicate" else f"Invalid value{shown}: {message}"
