"""An expression as a tree. Macros are loops already; the type checker writes types and overloads into the nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet.values.cel.types import DYN, Type

ACCUMULATOR = "@result"


class BadExpression(ValueError):
    """The text is no expression, or one that does not fit its types. The message names each place."""


class ExpressionTooLarge(BadExpression):
    """An expression is longer, or nested more deeply, than it may be."""


@dataclass(slots=True, eq=False)
class SyntaxNode:
    """`at`: where in the text, in characters."""

    at: int
    type: Type = field(default=DYN, kw_only=True)


@dataclass(slots=True, eq=False)
class Const(SyntaxNode):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(SyntaxNode):
    name: str


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    """`test`: does the field exist, as `has()` asks. `optional`: an absent field is no error."""

    operand: SyntaxNode
    name: str
    test: bool = False
    optional: bool = False


@dataclass(slots=True, eq=False)
class Call(SyntaxNode):
    """`overloads`: what the types let through, as `declare.Overload.id`."""

    function: str
    target: SyntaxNode | None
    args: list[SyntaxNode]
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[SyntaxNode]:
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListOf(SyntaxNode):
    items: list[SyntaxNode]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapOf(SyntaxNode):
    """(key, value, whether an absent value is left out)"""

    entries: list[tuple[SyntaxNode, SyntaxNode, bool]]


@dataclass(slots=True, eq=False)
class Struct(SyntaxNode):
    """A message. `fields`: (where its colon is, name, value, whether an absent value is left out)."""

    name: str
    fields: list[tuple[int, str, SyntaxNode, bool]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Loop(SyntaxNode):
    """`macro`: all, exists, exists_one, map, filter, transformList, transformMap, transformMapEntry. `second`: the
    second variable, or "". The parts after `over` say in terms of the accumulator what the macro means; types and costs
    follow them."""

    macro: str
    over: SyntaxNode
    first: str
    second: str
    start: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode
    test: SyntaxNode | None  # of the macro itself: what each item is asked
    output: SyntaxNode | None  # ... and what is made of it


@dataclass(slots=True, eq=False)
class Bind(SyntaxNode):
    """`name` stands for `value` in `result`."""

    name: str
    value: SyntaxNode
    result: SyntaxNode


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Both from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def worded(text: str, problems: list[tuple[int, str]]) -> str:
    """The problems of an expression as Kubernetes prints them: the place, the line, and a mark under it."""
    lines = []
    for at, message in sorted(problems, key=lambda problem: problem[0]):
        line, column = line_and_column(text, at)
        source = text.split("\n")[line - 1].replace("\t", " ")
        mark = "".join("\uff0e" if ord(sign) > 127 else "." for sign in source[: column - 1])
        mark += "\uff3e" if column <= len(source) and ord(source[column - 1]) > 127 else "^"
        lines.append(f"ERROR: <input>:{line}:{column}: {message}\n | {source}\n | {mark}")
    return "\n".join(lines)
