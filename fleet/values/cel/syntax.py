"""An expression of a WorkloadInterpreter as a small tree: what it reads, and what its loops cost (celcost.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet.values.cel.tree import BadExpression, ExpressionTooLarge

CHARACTERS_MAX = 4096  # of one expression; the library needs stack for each operator, and ends the process without
DEPTH_MAX = 40  # of brackets and conditions in one another

# Node: (what, parts): ("value", n), ("name", text), ("path", base, steps), ("all", parts), ("in", parts),
# ("cat", parts), ("list", parts), ("call", name, parts), ("loop", macro, range, names, bodies).
# A step is (".", name) or ("[", node).
Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|//[^\n]*)+)
      |(?P<text>[bB]?[rR][bB]?(?:\"[^"\n]*\"|'[^'\n]*')
               |[bB]?(?:\"\"\"(?:[^"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''
                       |\"(?:[^"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))
      |(?P<number>0x[0-9a-fA-F]+u?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_MACROS = {"all": (2, 3), "exists": (2, 3), "exists_one": (2, 3), "existsOne": (2, 3), "map": (2, 3), "filter": (2,)}
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_ADDING = 3


@dataclass(frozen=True, slots=True)
class Expression:
    """`size` counts the nodes of the tree."""

    tree: Node
    size: int
    loops: bool


def read(text: str) -> Expression:
    """Raises BadExpression."""
    if len(text) > CHARACTERS_MAX:
        raise ExpressionTooLarge(f"must be at most {CHARACTERS_MAX} characters long")
    reader = _Reader(text)
    tree = reader.expression(0)
    if reader.kind:
        raise BadExpression(f"is not understood at {reader.word[:20]!r}")
    return Expression(tree, len(reader.tokens), reader.loops)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        self.loops = False
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise BadExpression(f"is not understood at {text[place : place + 20]!r}")
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match[0], place))
            place = match.end()
        self.at = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    @property
    def word(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        word = self.word
        if (wanted and word != wanted) or not self.kind:
            raise BadExpression(f"expected {wanted or 'more'!r}, found {word[:20]!r}")
        self.at += 1
        return word

    def expression(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise ExpressionTooLarge(f"is nested more than {DEPTH_MAX} deep")
        first = self.level(0, depth)
        if self.word != "?" or self.kind != "sign":
            return first
        self.take("?")
        second = self.level(0, depth)
        self.take(":")
        return ("all", [first, second, self.expression(depth + 1)])

    def level(self, number: int, depth: int) -> Node:
        """Operators of one precedence and above; a chain of them is one node, however long."""
        if number == len(_LEVELS):
            return self.unary(depth)
        parts, what = [self.level(number + 1, depth)], "cat" if number == _ADDING else "all"
        while self.word in _LEVELS[number] and self.kind != "text":
            if self.take() == "in":
                what = "in"
            parts.append(self.level(number + 1, depth))
        return (what, parts) if len(parts) > 1 else parts[0]

    def unary(self, depth: int) -> Node:
        while self.word in ("!", "-") and self.kind == "sign":
            self.take()
        base = self.primary(depth)
        steps: list[Node] = []
        while self.kind == "sign" and self.word in (".", "["):
            step = self.take()
            if self.word == "?" and self.kind == "sign":
                self.take()  # a step that gives an optional value reads what the plain one does
            if step == "[":
                steps.append(("[", self.expression(depth + 1)))
                self.take("]")
                continue
            name = self.take()
            if self.word != "(" or self.kind != "sign":
                steps.append((".", name))
                continue
            base, steps = self.call(name, ("path", base, steps) if steps else base, depth), []
        return ("path", base, steps) if steps else base

    def primary(self, depth: int) -> Node:
        kind, word = self.kind, self.take()
        if kind == "text":
            return ("value", len(word))
        if kind == "number":
            return ("value", 1)
        if kind == "name":
            return self.call(word, None, depth) if self.word == "(" and self.kind == "sign" else ("name", word)
        if word == "(":
            inner = self.expression(depth + 1)
            self.take(")")
            return inner
        if word in ("[", "{"):
            return ("list", self.parts("]" if word == "[" else "}", depth, (",", ":")))
        if word == "." and self.kind == "name":
            return self.primary(depth)
        raise BadExpression(f"is not understood at {word[:20]!r}")

    def parts(self, end: str, depth: int, between: tuple[str, ...] = (",",)) -> list[Node]:
        nodes: list[Node] = []
        while self.word != end or self.kind != "sign":
            nodes.append(self.expression(depth + 1))
            if self.kind == "sign" and self.word in between:
                self.take()
            elif self.word != end:
                raise BadExpression(f"expected {end!r}, found {self.word[:20]!r}")
        self.take(end)
        return nodes

    def call(self, name: str, receiver: Node | None, depth: int) -> Node:
        self.take("(")
        parts = self.parts(")", depth)
        if receiver is None or len(parts) not in _MACROS.get(name, ()) or parts[0][0] != "name":
            return ("call", name, [*([receiver] if receiver else []), *parts])
        self.loops = True
        return ("loop", name, receiver, parts[0][1], parts[1:])
