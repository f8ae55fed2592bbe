"""An expression, read from its words. Macros become loops as they are met (macros.py)."""

from __future__ import annotations

from fleet.values.cel.macros import MacroFlaw, expanded
from fleet.values.cel.tree import (
    BadExpression,
    Call,
    Const,
    ExpressionTooLarge,
    Ident,
    ListOf,
    MapOf,
    Select,
    Struct,
    SyntaxNode,
    worded,
)
from fleet.values.cel.words import RESERVED, Word, number, text_value, words

DEPTH_MAX = 40  # of brackets, conditions and signs in one another: each takes ten frames of Python
CHAIN_MAX = 150  # of operators or fields in a row: the tree of a chain is as deep as the chain is long
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_LITERALS = {"true": True, "false": False, "null": None}
_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(text: str) -> SyntaxNode:
    """Raises BadExpression."""
    reader = _Reader(text)
    tree = reader.expression(0)
    if reader.word.kind:
        reader.fail(f"Syntax error: extraneous input '{reader.word.text}' expecting <EOF>")
    if reader.flaws:
        raise BadExpression(worded(text, reader.flaws))
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words(text)
        self.place = 0
        self.flaws: list[tuple[int, str]] = []

    @property
    def word(self) -> Word:
        return self.words[self.place]

    def fail(self, message: str) -> None:
        raise BadExpression(worded(self.text, [*self.flaws, (self.word.at, message)]))

    def at_sign(self, *signs: str) -> bool:
        return self.word.kind == "sign" and self.word.text in signs

    def take(self, sign: str = "") -> Word:
        word = self.word
        if sign and not self.at_sign(sign):
            missing = sign == ")" and not word.kind
            problem = (
                f"missing '{sign}' at '<EOF>'" if missing else f"mismatched input '{word.text}' expecting '{sign}'"
            )
            self.fail(f"Syntax error: {problem}")
        self.place += 1
        return word

    def expression(self, depth: int) -> SyntaxNode:
        if depth > DEPTH_MAX:
            raise ExpressionTooLarge(f"is nested more than {DEPTH_MAX} deep")
        first = self.level(0, depth)
        if not self.at_sign("?"):
            return first
        at = self.take().at
        second = self.level(0, depth + 1)
        self.take(":")
        return Call(at, "_?_:_", None, [first, second, self.expression(depth + 1)])

    def level(self, index: int, depth: int) -> SyntaxNode:
        if index == len(_LEVELS):
            return self.unary(depth)
        tree = self.level(index + 1, depth)
        parts: list[SyntaxNode] = [tree]
        operators: list[Word] = []
        while self.word.text in _LEVELS[index] and self.word.kind in ("sign", "name"):
            operators.append(self.take())
            parts.append(self.level(index + 1, depth))
            if len(parts) > CHAIN_MAX:
                raise ExpressionTooLarge(f"has more than {CHAIN_MAX} operators in a row")
        if index < 2 and operators:
            return _balanced(parts, operators, 0, len(operators) - 1)
        for operator, right in zip(operators, parts[1:], strict=True):
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            tree = Call(operator.at, name, None, [tree, right])
        return tree

    def unary(self, depth: int) -> SyntaxNode:
        if not self.at_sign("!", "-"):
            return self.member(depth)
        sign = self.word
        following = self.words[self.place + 1]
        if sign.text == "-" and following.kind == "number":
            self.take()
            return self.member(depth, negative=sign)
        count = 0
        while self.at_sign(sign.text):
            self.take()
            count += 1
        inner = self.member(depth) if not self.at_sign("!", "-") else self.nested_unary(depth)
        return Call(sign.at, f"{sign.text}_", None, [inner]) if count % 2 else inner

    def nested_unary(self, depth: int) -> SyntaxNode:
        self.fail(f"Syntax error: extraneous input '{self.word.text}' expecting {_EXPECTED}")
        raise AssertionError

    def member(self, depth: int, negative: Word | None = None) -> SyntaxNode:
        node = self.literal(negative) if negative else self.primary(depth)
        steps = 0
        while self.at_sign(".", "["):
            steps += 1
            if steps > CHAIN_MAX:
                raise ExpressionTooLarge(f"has more than {CHAIN_MAX} fields in a row")
            operator = self.take()
            optional = self.at_sign("?")
            if optional:
                self.take()
            if operator.text == "[":
                index = self.expression(depth + 1)
                self.take("]")
                node = Call(operator.at, "_[?_]" if optional else "_[_]", None, [node, index])
                continue
            if self.word.kind != "name" or self.word.text in ("in", *_LITERALS):
                self.fail(f"Syntax error: no viable alternative at input '.{self.word.text}'")
            name = self.take()
            if self.at_sign("(") and not optional:
                bracket = self.take()
                node = self.call(bracket.at, name.text, node, self.parts(")", depth))
            else:
                node = Select(operator.at, node, name.text, optional=optional)
        return node

    def call(self, at: int, name: str, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode:
        try:
            found = expanded(at, name, target, args)
        except MacroFlaw as flaw:
            self.flaws.append((flaw.at, flaw.message))
            return Const(at, None)
        return Call(at, name, target, args) if found is None else found

    def literal(self, negative: Word | None = None) -> SyntaxNode:
        word = self.take()
        at = negative.at if negative else word.at
        try:
            if word.kind == "text":
                return Const(at, text_value(word.text))
            return Const(at, number(("-" if negative else "") + word.text))
        except ValueError as problem:
            self.flaws.append((at, str(problem)))
            return Const(at, 0)

    def primary(self, depth: int) -> SyntaxNode:
        word = self.word
        if word.kind in ("text", "number"):
            return self.literal()
        if word.kind == "name" and word.text in _LITERALS:
            self.take()
            return Const(word.at, _LITERALS[word.text])
        if word.kind == "name" and word.text != "in":
            return self.named(depth, "")
        if self.at_sign("."):
            self.take()
            if self.word.kind == "name":
                return self.named(depth, ".")
        elif self.at_sign("("):
            self.take()
            inner = self.expression(depth + 1)
            self.take(")")
            return inner
        elif self.at_sign("["):
            self.take()
            return self.list_literal(word.at, depth)
        elif self.at_sign("{"):
            self.take()
            return self.map_literal(word.at, depth)
        self.fail(f"Syntax error: mismatched input '{self.word.text}' expecting {_EXPECTED}")
        raise AssertionError

    def named(self, depth: int, lead: str) -> SyntaxNode:
        name = self.take()
        if name.text in RESERVED:
            self.flaws.append((name.at, f"reserved identifier: {name.text}"))
        if self.at_sign("("):
            bracket = self.take()
            return self.call(bracket.at, name.text, None, self.parts(")", depth))
        end = self.dotted_end()
        if self.words[end].text == "{" and self.words[end].kind == "sign":
            steps = [name.text, *(word.text for word in self.words[self.place + 1 : end : 2])]
            self.place = end
            return self.struct(".".join(steps), depth)
        return Ident(name.at, lead + name.text)

    def dotted_end(self) -> int:
        """The place behind the names that follow, each with a dot before it."""
        end = self.place
        while self.words[end].text == "." and self.words[end + 1].kind == "name":
            end += 2
        return end

    def struct(self, name: str, depth: int) -> SyntaxNode:
        bracket = self.take("{")
        fields: list[tuple[int, str, SyntaxNode, bool]] = []
        while not self.at_sign("}"):
            optional = self.at_sign("?")
            if optional:
                self.take()
            if self.word.kind != "name":
                self.fail(f"Syntax error: mismatched input '{self.word.text}' expecting IDENTIFIER")
            key, colon = self.take(), self.take(":")
            fields.append((colon.at, key.text, self.expression(depth + 1), optional))
            if self.at_sign(","):
                self.take()
            elif not self.at_sign("}"):
                self.fail(f"Syntax error: mismatched input '{self.word.text}' expecting {{'}}', ','}}")
        self.take("}")
        return Struct(bracket.at, name, fields)

    def parts(self, end: str, depth: int) -> list[SyntaxNode]:
        nodes: list[SyntaxNode] = []
        while not self.at_sign(end):
            nodes.append(self.expression(depth + 1))
            if not self.at_sign(end):
                self.take(",")
                if end == ")" and self.at_sign(end):
                    self.fail(f"Syntax error: mismatched input '{end}' expecting {_EXPECTED}")
        self.take(end)
        return nodes

    def list_literal(self, at: int, depth: int) -> SyntaxNode:
        items: list[SyntaxNode] = []
        optional: set[int] = set()
        while not self.at_sign("]"):
            if self.at_sign("?"):
                self.take()
                optional.add(len(items))
            items.append(self.expression(depth + 1))
            if not self.at_sign("]"):
                self.take(",")
        self.take("]")
        return ListOf(at, items, frozenset(optional))

    def map_literal(self, at: int, depth: int) -> SyntaxNode:
        entries: list[tuple[SyntaxNode, SyntaxNode, bool]] = []
        while not self.at_sign("}"):
            optional = self.at_sign("?")
            if optional:
                self.take()
            key = self.expression(depth + 1)
            self.take(":")
            entries.append((key, self.expression(depth + 1), optional))
            if not self.at_sign("}"):
                self.take(",")
        self.take("}")
        return MapOf(at, entries)


def _balanced(parts: list[SyntaxNode], operators: list[Word], low: int, high: int) -> SyntaxNode:
    """A chain of && or ||, as deep as the logarithm of its length."""
    middle = (low + high + 1) // 2
    left = parts[middle] if middle == low else _balanced(parts, operators, low, middle - 1)
    right = parts[middle + 1] if middle == high else _balanced(parts, operators, middle + 1, high)
    return Call(operators[middle].at, f"_{operators[middle].text}_", None, [left, right])
