"""CEL in webhooks and policies: what an expression may name and give, its faults, and its value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from api.admission.dynamic.names import OBJECT, PATCH, PATCH_FUNCTIONS, patch_types, types
from fleet.values.cel import program as cel
from fleet.values.cel.messages import none_known
from fleet.values.cel.types import BOOL, DYN, NULL, STRING, Type, exactly, list_of

COST_MAX = 10_000_000  # of all validations of one policy about one request, and of one mutation
CONDITIONS_COST_MAX = 2_500_000  # of all conditions of one webhook or policy about one request
UNTIL_REST = 50_000
CHARACTERS_MAX = 16_384  # of one expression
MUST_HOLD, MESSAGE, ANNOTATION, ANYTHING = (BOOL,), (STRING,), (STRING, NULL), ()
CONFIGURATION, OPERATIONS = (OBJECT,), (list_of(PATCH),)
_EXHAUSTED = "validation failed due to running out of cost budget, no further validation rules will be run"
_VARIABLE = re.compile(r"(?<![\w.])variables\s*\.\s*([A-Za-z_]\w*)")


class Fault(Exception):
    """An expression has no value. The text is for the client."""


class CostExcess(Fault):
    """The expressions of a policy have cost all that they may: none is evaluated any more."""


class ConditionFailure(Exception):
    """A condition has no value, and no other is false."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of an expression: whether it may name `params` and `authorizer`, whether it can make the values
    of a mutation, the types of `variables`, and those of objects and parameters where they are known."""

    params: bool = False
    variables: tuple[tuple[str, Type], ...] = ()
    authorizer: bool = True
    patches: bool = False
    objects: Type = DYN
    params_type: Type = DYN

    def types(self) -> dict[str, Type]:
        known = types(
            params=self.params, authorizer=self.authorizer, objects=self.objects, params_type=self.params_type
        )
        if self.variables:
            known["variables"] = Type("struct", "kubernetes.variables", fields=dict(self.variables))
        return known


def _compile(text: str, known: Mapping[str, Type], patches: bool) -> cel.Program:
    return cel.compile_expression(
        text, known, functions=PATCH_FUNCTIONS if patches else None, messages=patch_types if patches else none_known
    )


def type_of(text: str, scope: Scope) -> Type:
    """The type of an expression, DYN where it has none."""
    try:
        return _compile(text, scope.types(), scope.patches).type
    except cel.BadExpression:
        return DYN


def fault_of(text: str, scope: Scope, results: Sequence[Type]) -> str:
    """The reason why the expression cannot be used, "" where it can. `results`: the types that it may have, empty for
    any."""
    if len(text) > CHARACTERS_MAX:
        return f"must be at most {CHARACTERS_MAX} characters long"
    try:
        type_ = _compile(text, scope.types(), scope.patches).type
    except cel.BadExpression as problem:
        return f"compilation failed: {problem}"
    if not results or any(exactly(type_, wanted) for wanted in results):
        return ""
    if len(results) == 1:
        return f"must evaluate to {results[0]} but got {type_}"
    return f"must evaluate to one of [{' '.join(map(str, results))}] but got {type_}"


@lru_cache(maxsize=1024)
def _compiled(text: str, patches: bool) -> cel.Program:
    """An expression that was checked when it was stored; any variable is there."""
    return _compile(text, {**types(params=True, authorizer=True), "variables": DYN}, patches)


class Values:
    """The values of expressions over the same names, within one budget. `variables` (name, expression) are evaluated
    when an expression names them, once."""

    def __init__(
        self,
        bindings: Mapping[str, Any],
        variables: Sequence[tuple[str, str]] = (),
        *,
        cost: int = COST_MAX,
        patches: bool = False,
    ) -> None:
        self._known, self._texts, self._patches = bindings, dict(variables), patches
        self._values: dict[str, Any] = {}
        self._budget = cel.Budget(cost)
        self._rested = cost

    async def rest(self) -> None:
        """Let others run, when much has been evaluated since the last time: a budget is many seconds of Python."""
        if self._rested - self._budget.balance > UNTIL_REST:
            self._rested = self._budget.balance
            await asyncio.sleep(0)

    def of(self, text: str) -> Any:
        """Raises Fault."""
        needed = [name for name in _VARIABLE.findall(text) if name in self._texts] if self._texts else []
        for name in needed:
            if name not in self._values:
                try:
                    self._values[name] = self.of(self._texts[name])
                except RecursionError:
                    raise Fault(f'composited variable "{name}" names itself') from None
                except CostExcess:
                    raise
                except Fault as problem:
                    raise Fault(f'composited variable "{name}" fails to evaluate: {problem}') from None
        known = {**self._known, "variables": {name: self._values[name] for name in needed}} if needed else self._known
        last = self._budget.balance < cel.CALL_COST_MAX
        try:
            return _compiled(text, self._patches).evaluate(known, self._budget)
        except cel.OverBudget as problem:
            raise (CostExcess(_EXHAUSTED) if last else Fault(str(problem))) from None
        except (cel.BadExpression, cel.NoValue) as problem:
            raise Fault(str(problem)) from None


def holding(
    conditions: Sequence[tuple[str, str]], bindings: Mapping[str, Any], variables: Sequence[tuple[str, str]] = ()
) -> bool:
    """Whether all conditions (name, expression) hold. One that is false decides, whatever becomes of the others. Raises
    ConditionFailure. Conditions do not see the namespace."""
    if not conditions:
        return True
    values = Values({**bindings, "namespaceObject": None}, variables, cost=CONDITIONS_COST_MAX)
    failed: list[str] = []
    for _, text in conditions:
        try:
            if values.of(text) is False:
                return False
        except CostExcess as problem:
            raise ConditionFailure(str(problem)) from None
        except Fault as problem:
            failed.append(f"expression '{text}' resulted in error: {problem}")
    if failed:
        raise ConditionFailure(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True
