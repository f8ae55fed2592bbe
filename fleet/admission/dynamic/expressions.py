"""CEL in webhooks and policies: the variables that an expression may name, its faults, and its value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fleet.engine.cel import program as cel
from fleet.engine.cel.types import BOOL, DYN, NULL, STRING, Type, exactly

COST_MAX = 1_000_000  # of all expressions of one policy about one request
CHARACTERS_MAX = 16_384  # of one expression
MUST_HOLD, MESSAGE, ANNOTATION, ANYTHING = (BOOL,), (STRING,), (STRING, NULL), ()
_ALWAYS = ("object", "oldObject", "request", "namespaceObject")
_VARIABLE = re.compile(r"(?<![\w.])variables\s*\.\s*([A-Za-z_]\w*)")


class Fault(Exception):
    """An expression has no value. The text is for the client."""


class ConditionFailed(Exception):
    """A condition has no value, and no other is false."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of an expression: whether it may name `params`, and the types of `variables`."""

    params: bool = False
    variables: tuple[tuple[str, Type], ...] = ()

    def types(self) -> dict[str, Type]:
        known = dict.fromkeys((*_ALWAYS, *(("params",) if self.params else ())), DYN)
        if self.variables:
            known["variables"] = Type("struct", "kubernetes.variables", fields=dict(self.variables))
        return known


def type_of(text: str, scope: Scope) -> Type:
    """The type of an expression, DYN where it has none."""
    try:
        return cel.compile_expression(text, scope.types()).type
    except cel.BadExpression:
        return DYN


def fault_of(text: str, scope: Scope, results: Sequence[Type]) -> str:
    """The reason why the expression cannot be used, "" where it can. `results`: the types that it may have, empty for
    any."""
    if len(text) > CHARACTERS_MAX:
        return f"must be at most {CHARACTERS_MAX} characters long"
    try:
        found = cel.compile_expression(text, scope.types()).type
    except cel.BadExpression as problem:
        return f"compilation failed: {problem}"
    if not results or any(exactly(found, wanted) for wanted in results):
        return ""
    if len(results) == 1:
        return f"must evaluate to {results[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(map(str, results))}]"


@lru_cache(maxsize=1024)
def _compiled(text: str) -> cel.Program:
    """An expression that was checked when it was stored; any variable is there."""
    return cel.compile_expression(text, dict.fromkeys((*_ALWAYS, "params", "variables"), DYN))


class Values:
    """The values of expressions over the same names, within one budget. `variables` (name, expression) are evaluated
    when an expression names them, once. `skipped`: for its user, whether a condition was false."""

    def __init__(self, known: Mapping[str, Any], variables: Sequence[tuple[str, str]] = ()) -> None:
        self._known, self._texts = known, dict(variables)
        self._values: dict[str, Any] = {}
        self._budget = cel.Budget(COST_MAX)
        self.skipped = False

    def of(self, text: str) -> Any:
        """Raises Fault."""
        needed = [name for name in _VARIABLE.findall(text) if name in self._texts] if self._texts else []
        for name in needed:
            if name not in self._values:
                try:
                    self._values[name] = self.of(self._texts[name])
                except RecursionError:
                    raise Fault(f'composited variable "{name}" names itself') from None
                except Fault as problem:
                    raise Fault(f'composited variable "{name}" fails to evaluate: {problem}') from None
        known = {**self._known, "variables": {name: self._values[name] for name in needed}} if needed else self._known
        try:
            return _compiled(text).evaluate(known, self._budget)
        except (cel.BadExpression, cel.Fault) as problem:
            raise Fault(str(problem)) from None


def holding(conditions: Sequence[tuple[str, str]], values: Values) -> bool:
    """Whether all conditions (name, expression) hold. One that is false decides, whatever becomes of the others. Raises
    ConditionFailed."""
    failed: list[str] = []
    for _, text in conditions:
        try:
            if values.of(text) is False:
                return False
        except Fault as problem:
            failed.append(f"expression '{text}' resulted in error: {problem}")
    if failed:
        raise ConditionFailed(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True
