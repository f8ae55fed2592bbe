"""Compiling an expression and running it: what the rest of Fleet uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.values.cel.check import checked
from fleet.values.cel.declare import Overload
from fleet.values.cel.evaluate import Compiler, Step
from fleet.values.cel.messages import Messages, none_known
from fleet.values.cel.tree import BadExpression, SyntaxNode
from fleet.values.cel.types import Type, exactly
from fleet.values.cel.values import Evaluation, NoValue, OverBudget

CALL_COST_MAX = 1_000_000  # of one evaluation
_BY_RECURSION = "is nested too deeply"


class Budget:
    """What several evaluations may cost together; `balance` is below zero where they took too much."""

    __slots__ = ("balance",)

    def __init__(self, balance: int) -> None:
        self.balance = balance


class Program:
    """A compiled expression. `uses`: the variables that it reads."""

    __slots__ = ("_count", "_names", "_step", "cost", "text", "tree", "uses")

    def __init__(self, text: str, tree: SyntaxNode, names: list[str], functions: Mapping[str, Any]) -> None:
        compiler = Compiler(names, functions)
        self.text, self.tree = text, tree
        self._step: Step
        self._step, self.cost = compiler.compile(tree)
        self._names, self._count = names, compiler.count
        self.uses = frozenset(compiler.uses)

    @property
    def type(self) -> Type:
        return self.tree.type

    def evaluate(self, bindings: Mapping[str, Any], budget: Budget) -> Any:
        """Raises NoValue where the expression has no value, and OverBudget, which is one, where it costs too much."""
        slots = [bindings.get(name) for name in self._names]
        slots += [None] * (self._count - len(slots))
        allowed = min(CALL_COST_MAX, budget.balance)
        run = Evaluation(slots, allowed)
        try:
            run.spend(self.cost)
            return self._step(run)
        except RecursionError:
            raise NoValue(_BY_RECURSION) from None
        finally:
            budget.balance -= allowed - run.balance


def compile_expression(
    text: str,
    variables: Mapping[str, Type],
    result: Type | None = None,
    functions: Mapping[str, tuple[tuple[Overload, ...], Callable[..., Any]]] | None = None,
    messages: Messages = none_known,
) -> Program:
    """Raises BadExpression, in the words of Kubernetes behind "compilation failed: ". `result`: the type that the
    outcome must have. `functions`: more than those of Kubernetes, each with its overloads. `messages`: what the
    expression can make."""
    own = functions or {}
    try:
        tree = checked(text, variables, {name: entry[0] for name, entry in own.items()}, messages)
        if result is not None and not exactly(tree.type, result) and result.kind != "dyn":
            raise BadExpression(f"must evaluate to {result}")
        return Program(text, tree, list(variables), {name: (entry[1], 1) for name, entry in own.items()})
    except RecursionError:
        raise BadExpression(_BY_RECURSION) from None


__all__ = ["BadExpression", "Budget", "NoValue", "OverBudget", "Program", "compile_expression"]
