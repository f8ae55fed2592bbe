"""The words of an expression: where each begins, and the values of literals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet.values.cel.tree import BadExpression, ExpressionTooLarge, worded

CHARACTERS_MAX = 10_240  # of one expression: reading it takes a hundredth of a second
RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f]|//[^\n]*)+)
      |(?P<text>(?:[bB]?[rR]|[rR][bB])(?:\"\"\"(?:[^"]|\"(?!\"\"))*\"\"\"|'''(?:[^']|'(?!''))*'''|\"[^"\n\r]*\"|'[^'\n\r]*')
               |[bB]?(?:\"\"\"(?:[^"\\]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^'\\]|\\.|'(?!''))*'''
                       |\"(?:[^"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*'))
      |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_PLAIN = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "'": "'",
    "`": "`",
    "?": "?",
    "\\": "\\",
}


class UInt(int):
    """An unsigned integer; a plain one is signed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Word:
    """`kind`: text, number, name, sign or, at the end, ""."""

    kind: str
    text: str
    at: int


def words(text: str) -> list[Word]:
    """Raises BadExpression."""
    if len(text) > CHARACTERS_MAX:
        raise ExpressionTooLarge(f"must be at most {CHARACTERS_MAX} characters long")
    tokens: list[Word] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            problem = f"Syntax error: token recognition error at: '{text[place]}'"
            raise BadExpression(worded(text, [(place, problem)]))
        if match.lastgroup != "space":
            tokens.append(Word(str(match.lastgroup), match[0], place))
        place = match.end()
    tokens.append(Word("", "<EOF>", len(text)))
    return tokens


def number(word: str) -> Any:
    """Raises ValueError with the words of a refusal."""
    if word[:2] == "0x" or word[:3] == "-0x" or word.rstrip("uU").lstrip("-").isdigit():
        unsigned = word[-1] in "uU"
        digits = word.rstrip("uU")
        value = int(digits, 16 if "0x" in digits else 10)
        if unsigned:
            if value >= 1 << 64:
                raise ValueError("invalid uint literal")
            return UInt(value)
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("invalid int literal")
        return value
    return float(word)


def text_value(word: str) -> str | bytes:
    """The value of a string or bytes literal. Raises ValueError with the words of a refusal."""
    prefix = word[: min(word.index(quote) for quote in "\"'" if quote in word)].lower()
    body = word[len(prefix) :]
    width = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[width:-width]
    binary = "b" in prefix
    if "r" in prefix:
        return body.encode() if binary else body
    if not binary:
        return _ESCAPE.sub(_character, body)
    data = bytearray()
    last = 0
    for match in _ESCAPE.finditer(body):
        data += body[last : match.start()].encode()
        last = match.end()
        if match[1] or match[4]:
            data.append(int(match[1] or match[4], 16 if match[1] else 8))
        elif match[2] or match[3]:
            raise ValueError("unable to unescape string")
        else:
            data += _character(match).encode()
    return bytes(data + body[last:].encode())


def _character(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise ValueError("invalid unicode code point")
        return chr(code)
    if match[4]:
        return chr(int(match[4], 8))
    if match[5] not in _PLAIN:
        raise ValueError("unable to unescape string")
    return _PLAIN[match[5]]
