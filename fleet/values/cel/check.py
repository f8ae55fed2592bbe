"""The type checker: what each part of an expression is, or why it cannot be, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.values.cel.declare import CONSTANTS, FUNCTIONS, Overload
from fleet.values.cel.literals import literal_flaws
from fleet.values.cel.messages import Messages, field_type, none_known
from fleet.values.cel.parse import parse
from fleet.values.cel.tree import (
    ACCUMULATOR,
    BadExpression,
    Bind,
    Call,
    Const,
    Ident,
    ListOf,
    Loop,
    MapOf,
    Select,
    Struct,
    SyntaxNode,
    worded,
)
from fleet.values.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Bindings,
    Type,
    exactly,
    general,
    list_of,
    map_of,
    optional_of,
    type_of,
    unwrapped,
)
from fleet.values.cel.words import UInt

ERRORS_MAX = 100  # of one expression


def checked(
    text: str,
    variables: Mapping[str, Type],
    functions: Mapping[str, tuple[Overload, ...]] = {},
    messages: Messages = none_known,
) -> SyntaxNode:
    """The tree of an expression with its types. Raises BadExpression. `functions`: beyond those of Kubernetes."""
    tree = parse(text)
    checker = _Checker(variables, functions, messages)
    checker.check(tree)
    found = checker.errors or checker.later
    if found:
        raise BadExpression(worded(text, found[:ERRORS_MAX]))
    checker.settle()
    return tree


class _Checker:
    def __init__(
        self, variables: Mapping[str, Type], functions: Mapping[str, tuple[Overload, ...]], messages: Messages
    ) -> None:
        self.names: dict[str, Type] = {**CONSTANTS, **variables}
        self.functions = functions
        self.messages = messages
        self.bound = Bindings()
        self.errors: list[tuple[int, str]] = []
        self.later: list[tuple[int, str]] = []  # of an expression whose types are right
        self.mixed = 0  # lists of several types are allowed here
        self.visited: list[SyntaxNode] = []

    def settle(self) -> None:
        """Type parameters that nothing has bound are dynamic."""
        for node in self.visited:
            if node.type.params or node.type.kind == "param":
                node.type = self.bound.resolved(node.type, free_to_dyn=True)

    def check(self, node: SyntaxNode) -> Type:
        node.type = getattr(self, f"_{type(node).__name__.lower()}")(node)
        self.visited.append(node)
        return node.type

    def fail(self, at: int, message: str) -> Type:
        if (at, message) not in self.errors:
            self.errors.append((at, message))
        return ERROR

    def _const(self, node: Const) -> Type:
        return type_of_constant(node.value)

    def _ident(self, node: Ident) -> Type:
        found = self._named(node.name.removeprefix("."))
        return found or self.fail(node.at, f"undeclared reference to '{node.name}' (in container '')")

    def _named(self, name: str) -> Type | None:
        """The type of a variable, a constant, or a message type, which is a value of its own."""
        found = self.names.get(name)
        if found is None:
            message = self.messages(name)
            found = type_of(message) if message is not None else None
        return found

    def _struct(self, node: Struct) -> Type:
        declared = self._named(node.name)
        if declared is None:
            return self.fail(node.at, f"undeclared reference to '{node.name}' (in container '')")
        message = declared.params[0] if declared.kind == "type" else None
        if message is None or not message.constructible:
            what = "a type" if message is None else "a message type"
            self.fail(node.at, f"'{declared.name if message is None else message.name}' is not {what}")
            message = None
        for at, name, value, optional in node.fields:
            given = self._perhaps(value, optional)
            wanted = field_type(message, name) if message is not None else ERROR
            if wanted is None:
                self.fail(at, f"undefined field '{name}'")
            elif not self.bound.fits(wanted, given):
                shown = f"expected type of field '{name}' is '{wanted}' but provided type is '{given}'"
                self.fail(at, shown)
        return message or ERROR

    def _select(self, node: Select) -> Type:
        known = None if node.test else self._qualified(node)
        if known is not None:
            return known
        operand, was_optional = unwrapped(self.bound.resolved(self.check(node.operand)))
        result = DYN
        if operand.kind == "map":
            result = operand.params[1]
        elif operand.kind == "struct":
            found = field_type(operand, node.name) if operand.constructible else (operand.fields or {}).get(node.name)
            result = found or self.fail(node.at, f"undefined field '{node.name}'")
        elif operand.kind == "param":
            self.bound.fits(DYN, operand)
        elif operand.kind not in ("dyn", "error"):
            self.fail(node.at, f"type '{operand}' does not support field selection")
        if node.test:
            return BOOL
        return optional_of(result) if was_optional or node.optional else self.bound.resolved(result)

    def _qualified(self, node: Select) -> Type | None:
        """The type of a variable, a constant or a message type with dots in its name."""
        dotted = qualified(node)
        root = dotted.partition(".")[0]
        return self.names.get(dotted) or (self._named(dotted) if dotted and root not in self.names else None)

    def _call(self, node: Call) -> Type:
        self.mixed += node.function == "format"
        arguments = [self.check(part) for part in node.args]
        self.mixed -= node.function == "format"
        self.later += literal_flaws(node)
        if node.target is not None:
            prefix = qualified(node.target)
            whole = f"{prefix}.{node.function}"
            if prefix and (whole in FUNCTIONS or whole in self.functions):
                node.function, node.target = whole, None
            else:
                arguments.insert(0, self.check(node.target))
        overloads = self.functions.get(node.function, ()) + FUNCTIONS.get(node.function, ())
        if not overloads:
            return self.fail(node.at, f"undeclared reference to '{node.function}' (in container '')")
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, arguments)
        return self._resolve(node, overloads, arguments)

    def _logical(self, node: Call, given: list[Type]) -> Type:
        wrong = False
        for part, found in zip(node.args, given, strict=True):
            if not self.bound.fits(found, BOOL):
                wrong = True
                self.fail(part.at, f"expected type 'bool' but found '{found}'")
        node.overloads = (f"{node.function}(bool, bool)",)
        return ERROR if wrong else BOOL

    def _resolve(self, node: Call, overloads: tuple[Overload, ...], arguments: list[Type]) -> Type:
        result: Type | None = None
        chosen: list[str] = []
        for overload in overloads:
            if overload.member != (node.target is not None) or len(overload.args) != len(arguments):
                continue
            wanted, outcome = self._instance(overload)
            if not self.bound.all_fit(arguments, wanted):
                continue
            chosen.append(overload.id)
            outcome = self.bound.resolved(outcome)
            if result is None:
                result = outcome
            elif result.kind != "dyn" and not exactly(outcome, result):
                result = DYN
        node.overloads = tuple(chosen)
        if result is not None:
            return result
        shown = [str(self.bound.resolved(one, free_to_dyn=True)) for one in arguments]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if node.target is not None else f"({', '.join(shown)})"
        return self.fail(node.at, f"found no matching overload for '{node.function}' applied to '{signature}'")

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload's types with type parameters of its own."""
        if not overload.params:
            return overload.args, overload.result
        fresh = {name: self.bound.fresh() for name in overload.params}
        return tuple(_renamed(one, fresh) for one in overload.args), _renamed(overload.result, fresh)

    def _listof(self, node: ListOf) -> Type:
        joined: Type | None = None
        for index, item in enumerate(node.items):
            joined = self._join(item, joined, self._perhaps(item, index in node.optional))
        return list_of(joined or self.bound.fresh())

    def _mapof(self, node: MapOf) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            keys = self._join(key, keys, self.check(key))
            values = self._join(value, values, self._perhaps(value, optional))
        return map_of(keys or self.bound.fresh(), values or self.bound.fresh())

    def _perhaps(self, node: SyntaxNode, optional: bool) -> Type:
        given = self.check(node)
        if not optional:
            return given
        inner, was_optional = unwrapped(given)
        if not was_optional and inner.kind != "dyn":
            self.fail(node.at, f"expected type '{optional_of(inner)}' but found '{inner}'")
        return inner

    def _join(self, node: SyntaxNode, before: Type | None, type_: Type) -> Type:
        if before is None:
            return type_
        if self.bound.fits(before, type_):
            return general(before, type_)
        if not self.mixed:
            self.later.append((node.at, f"expected type '{before}' but found '{type_}'"))
            return before
        return DYN

    def _bind(self, node: Bind) -> Type:
        before = dict(self.names)
        self.names[node.name] = self.check(node.value)
        result = self.check(node.result)
        self.names = before
        return result

    def _loop(self, node: Loop) -> Type:
        over = self.bound.resolved(self.check(node.over))
        start = self.check(node.start)
        first, second = DYN, DYN
        if over.kind == "list":
            first, second = (INT, over.params[0]) if node.second else (over.params[0], DYN)
        elif over.kind == "map":
            first, second = over.params
        elif over.kind in ("dyn", "error", "param"):
            self.bound.fits(DYN, over)
        else:
            first = second = self.fail(
                node.over.at,
                f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        before = self.names
        self.names = {**before, ACCUMULATOR: start, node.first: first}
        if node.second:
            self.names[node.second] = second
        self._expect(node.condition, BOOL)
        self._expect(node.step, start)
        self.names = {**before, ACCUMULATOR: start}
        result = self.check(node.result)
        self.names = before
        return self.bound.resolved(result)

    def _expect(self, node: SyntaxNode, wanted: Type) -> None:
        found = self.check(node)
        if not self.bound.fits(wanted, found):
            self.fail(node.at, f"expected type '{wanted}' but found '{found}'")


def _renamed(given: Type, fresh: Mapping[str, Type]) -> Type:
    if given.kind == "param":
        return fresh[given.name]
    if not given.params:
        return given
    return Type(given.kind, given.name, tuple(_renamed(inner, fresh) for inner in given.params))


def qualified(node: SyntaxNode) -> str:
    """A name with dots; "" for anything else."""
    if isinstance(node, Ident):
        return node.name.removeprefix(".")
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = qualified(node.operand)
        return f"{prefix}.{node.name}" if prefix else ""
    return ""


def type_of_constant(value: Any) -> Type:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, UInt):
        return UINT
    return {int: INT, float: DOUBLE, str: STRING, bytes: BYTES}[type(value)]
