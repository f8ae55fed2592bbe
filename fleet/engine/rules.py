"""x-kubernetes-validations: rules in CEL, compiled when the schema is, and run within a budget.

A rule that does not compile must not make its kind unwritable, so it is kept with its error, which the check of the
schema reports, and it checks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fleet.engine.celcost import Actual, cost_of, weight_of
from fleet.engine.celpackage import cel
from fleet.engine.celsyntax import MATCHES, BadExpression, Expression, TooLarge, read
from fleet.engine.pattern import Pattern
from fleet.engine.status import Cause, cut

COST_MAX = 1_000_000  # steps of all rules of one write, about a tenth of a second
_HANDED_OVER = 4  # times as fast as it copies, the library takes a value from Python
_STEPS_OF_RULE = 100  # of one rule at one place, independent of its text
_SMALL = 2_000  # steps of an expression without loops that need not be looked at closely
_STEPS_OF_CALL = 100  # from the library to RE2 and back
_STEPS_OF_MATCH = 30  # characters × instructions that RE2 takes in one step, at its slowest
EXCEEDED = "validation cost budget exceeded: the rules would take too long for an object of this size"


@dataclass(frozen=True, slots=True)
class Program:
    """An expression, read for its cost and compiled to be run."""

    expression: Expression
    compiled: Any


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `transition`: a rule about `oldSelf`, which is asked only where there is an old value."""

    text: str
    message: str
    message_expression: Program | None
    reason: str
    field_path: str
    transition: bool
    optional_old: bool
    program: Program | None
    error: str = ""
    too_large: bool = False


class Budget:
    """The rest of the steps that the rules of one write may take."""

    __slots__ = ("left",)

    def __init__(self, left: int = COST_MAX) -> None:
        self.left = left

    def spend(self, steps: int) -> bool:
        self.left -= steps
        return self.left >= 0


@lru_cache(maxsize=256)
def compile_program(text: str) -> Program:
    """Raises BadExpression."""
    expression = read(text)
    try:
        return Program(expression, cel.compile(expression.source))
    except BaseException as problem:  # its parser raises several types, a panic among them, which is no Exception
        _not_ours(problem)
        raise BadExpression(cut(" ".join(str(problem).split()))) from None


def compile_rule(raw: dict[str, Any]) -> Rule:
    program: Program | None = None
    expression: Program | None = None
    error, too_large = "", False
    try:
        program = compile_program(_text(raw, "rule"))
        if raw.get("messageExpression"):
            expression = compile_program(_text(raw, "messageExpression"))
    except BadExpression as problem:
        error, too_large = str(problem), isinstance(problem, TooLarge)
        program = None
    return Rule(
        text=_text(raw, "rule"),
        message=_text(raw, "message"),
        message_expression=expression,
        reason=_text(raw, "reason") or "FieldValueInvalid",
        field_path=_text(raw, "fieldPath"),
        transition=program is not None and "oldSelf" in program.compiled.variables(),
        optional_old=raw.get("optionalOldSelf") is True,
        program=program,
        error=error,
        too_large=too_large,
    )


def _text(raw: Any, key: str) -> str:
    value = raw.get(key) if isinstance(raw, dict) else None
    return value if isinstance(value, str) else ""


def evaluate(
    rules: Sequence[Rule], value: Any, old: Any, has_old: bool, type_name: str, path: str, budget: Budget
) -> list[Cause]:
    """The refusals of the rules of one place, in their order. When the budget does not last, that is the last of it."""
    asked = [r for r in rules if r.program is not None and (has_old or r.optional_old or not r.transition)]
    if not asked or budget.left < 0:
        return []
    run = _Run(value, old, has_old, budget)
    causes: list[Cause] = []
    for rule in asked:
        cause = _ask(rule, run, value, type_name, path)
        if budget.left < 0:
            return [*causes, Cause(path or "<nil>", f'Invalid value: "{type_name}": {EXCEEDED}')]
        if cause is not None:
            causes.append(cause)
    return causes


class _Run:
    """The values that the rules of one place see, handed to the library once."""

    def __init__(self, value: Any, old: Any, has_old: bool, budget: Budget) -> None:
        self._value, self._old, self._has_old, self._budget = value, old, has_old, budget
        self._contexts: dict[bool, Any] = {}
        self._weight = weight_of(value) + (weight_of(old) if has_old else 0)
        self._visited = [0]
        self._sizes = {"self": Actual([value], self._visited), "oldSelf": Actual([old], self._visited)}

    def execute(self, program: Program, optional_old: bool) -> Any:
        """None, and nothing left of the budget, when it would cost too much. Raises what the library raises."""
        expression = program.expression
        steps = expression.size * (1 + self._weight) + _STEPS_OF_RULE
        if expression.loops or steps * expression.size > _SMALL:
            self._visited[0] = 0
            steps = cost_of(expression, self._sizes) + self._visited[0] + _STEPS_OF_RULE
        if not self._budget.spend(steps):
            return None
        context = self._contexts.get(optional_old)
        if context is None:
            if not self._budget.spend(self._weight // _HANDED_OVER):
                return None
            context = self._contexts[optional_old] = cel.Context(self._variables(optional_old), {MATCHES: self._match})
        try:
            return program.compiled.execute(context)
        except BaseException as problem:
            _not_ours(problem)
            raise RuleError(_said(problem)) from problem

    def _variables(self, optional_old: bool) -> dict[str, Any]:
        if not optional_old:
            return {"self": self._value, "oldSelf": self._old}
        old = cel.OptionalValue.of(self._old) if self._has_old else cel.OptionalValue.none()
        return {"self": self._value, "oldSelf": old}

    def _match(self, text: Any, pattern: Any) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            raise TypeError("no such overload")
        known = _known_pattern(pattern)
        if not self._budget.spend(_STEPS_OF_CALL + known.cost(text) // _STEPS_OF_MATCH):
            raise RuntimeError(EXCEEDED)
        return known.matches(text)


@lru_cache(maxsize=256)
def _known_pattern(text: str) -> Pattern:
    return Pattern(text)


class RuleError(Exception):
    """A rule could not be evaluated."""


def execute(
    program: Program, variables: Mapping[str, Any], budget: Budget, functions: Mapping[str, Callable[..., Any]]
) -> Any:
    """The value of an expression over some variables, outside of a schema. Raises RuleError, also where the budget
    does not last."""
    expression, weight = program.expression, sum(map(weight_of, variables.values()))
    steps = expression.size * (1 + weight) + _STEPS_OF_RULE
    if expression.loops or steps * expression.size > _SMALL:
        visited = [0]
        sizes = {name: Actual([value], visited) for name, value in variables.items()}
        steps = cost_of(expression, sizes) + visited[0] + _STEPS_OF_RULE
    if not budget.spend(steps + weight // _HANDED_OVER):
        raise RuleError(EXCEEDED)

    def match(text: Any, pattern: Any) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            raise TypeError("no such overload")
        known = _known_pattern(pattern)
        if not budget.spend(_STEPS_OF_CALL + known.cost(text) // _STEPS_OF_MATCH):
            raise RuntimeError(EXCEEDED)
        return known.matches(text)

    try:
        return program.compiled.execute(cel.Context(dict(variables), {**functions, MATCHES: match}))
    except BaseException as problem:
        _not_ours(problem)
        raise RuleError(_said(problem)) from problem


def _not_ours(problem: BaseException) -> None:
    """A panic of the library derives from BaseException; an exception that ends the process or a task is not its
    doing."""
    if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
        raise problem


def _ask(rule: Rule, run: _Run, value: Any, type_name: str, path: str) -> Cause | None:
    """None when the rule holds."""
    assert rule.program is not None
    try:
        held = run.execute(rule.program, rule.optional_old)
    except RuleError as problem:  # a rule that fails to evaluate refuses, as it does in a kube-apiserver
        text = f"{problem} evaluating rule: {rule.message or rule.text}"
        return Cause(path or "<nil>", f'Invalid value: "{type_name}": {text}')
    if held is True:
        return None
    message = rule.message or f"failed rule: {rule.text}"
    if rule.message_expression is not None:
        try:
            said = run.execute(rule.message_expression, rule.optional_old)
            if isinstance(said, str) and said.strip() and "\n" not in said:
                message = said
        except RuleError:  # the fixed message stands in for one that cannot be computed
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
    return f"{word}: {cut(json.dumps(value, ensure_ascii=False))}: {message}"


def _said(problem: BaseException) -> str:
    if isinstance(problem, KeyError):
        return f"no such key: {problem.args[0]}"
    return cut(" ".join(str(problem).split()))
