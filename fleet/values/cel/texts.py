"""CEL's functions over texts: searching, cutting, patterns and `format`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fleet.values.cel.arithmetic import to_string
from fleet.values.cel.values import (
    NO_OVERLOAD,
    Duration,
    Evaluation,
    NoValue,
    Timestamp,
    TypeValue,
    number_text,
    type_name,
)
from fleet.values.cel.words import UInt
from fleet.values.pattern import BadPattern, Pattern

_RE2_STEPS = 100  # characters × instructions of RE2 that take as long as one step of ours
_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d{1,3}))?([sdfexXob]))")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def _texts(*given: Any) -> None:
    if not all(type(one) is str for one in given):
        raise NoValue(NO_OVERLOAD)


def contains(run: Evaluation, text: Any, part: Any) -> bool:
    _texts(text, part)
    run.spend(-(-len(text) // 10) * -(-len(part) // 10))
    return part in text


def starts_with(run: Evaluation, text: Any, part: Any) -> bool:
    _texts(text, part)
    run.traverse(len(text))
    return str(text).startswith(part)


def ends_with(run: Evaluation, text: Any, part: Any) -> bool:
    _texts(text, part)
    run.traverse(len(text))
    return str(text).endswith(part)


@lru_cache(maxsize=512)
def _pattern(text: str) -> Pattern:
    return Pattern(text)


def pattern(run: Evaluation, text: str, expression: str) -> Pattern:
    """Charges for its use, too."""
    try:
        found = _pattern(expression)
    except BadPattern as problem:
        raise NoValue(f"error parsing regexp: {problem}") from None
    run.spend(max(-(-(len(text) + 1) // 10) * -(-len(expression) // 4), found.cost(text) // _RE2_STEPS))
    return found


def matches(run: Evaluation, text: Any, expression: Any) -> bool:
    _texts(text, expression)
    return pattern(run, text, expression).matches(text)


def find(run: Evaluation, text: Any, expression: Any) -> str:
    _texts(text, expression)
    return next((str(match[0]) for match in pattern(run, text, expression).each(text)), "")


def find_all(run: Evaluation, text: Any, expression: Any, most: int = -1) -> list[str]:
    _texts(text, expression)
    compiled, parts, before = pattern(run, text, expression), list[str](), -1
    for match in compiled.each(text) if most else ():
        run.spend(1 + compiled.cost(match[0]) // _RE2_STEPS)
        if match.end() > match.start() or match.start() != before:  # nothing right behind a match is no match
            parts.append(str(match[0]))
        before = match.end()
        if len(parts) == most:
            break
    return parts


def char_at(run: Evaluation, text: Any, index: Any) -> str:
    if not 0 <= index <= len(text):
        raise NoValue(f"index out of range: {index}")
    return str(text[index : index + 1])


def index_of(run: Evaluation, text: Any, part: Any, start: Any = 0) -> int:
    if type(text) is list:
        from fleet.values.cel.sequences import position

        return position(run, text, part)
    _texts(text, part)
    run.traverse(len(text))
    if part == "":
        return int(start)
    if start < 0 or start > len(text):
        raise NoValue(f"index out of range: {start}")
    return str(text).find(part, start)


def last_index_of(run: Evaluation, text: Any, part: Any, start: Any = None) -> int:
    if type(text) is list:
        from fleet.values.cel.sequences import last_position

        return last_position(run, text, part)
    _texts(text, part)
    run.traverse(len(text))
    if start is None:
        return str(text).rfind(part)
    if start < 0 or start > len(text):
        raise NoValue(f"index out of range: {start}")
    return int(start) if part == "" else str(text).rfind(part, 0, start + len(part))


def lower(run: Evaluation, text: Any) -> str:
    run.traverse(len(text))
    return str(text).translate(_LOWER)


def upper(run: Evaluation, text: Any) -> str:
    run.traverse(len(text))
    return str(text).translate(_UPPER)


def trim(run: Evaluation, text: Any) -> str:
    run.traverse(len(text))
    return str(text).strip(_SPACE)


def replace(run: Evaluation, text: Any, old: Any, new: Any, most: Any = -1) -> str:
    run.traverse(2 * len(text))
    found = len(text) + 1 if old == "" else str(text).count(old)
    run.traverse((found if most < 0 else min(most, found)) * len(new))
    return str(text).replace(old, new, int(most))


def split(run: Evaluation, text: Any, separator: Any, most: Any = -1) -> list[str]:
    run.traverse(2 * len(text))
    if most == 0:
        return []
    if separator == "":
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return str(text).split(separator, -1 if most < 0 else most - 1)


def substring(run: Evaluation, text: Any, start: Any, end: Any = None) -> str:
    run.traverse(len(text))
    if end is not None and start > end:
        raise NoValue(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise NoValue(f"index out of range: {start}")
    if end is not None and not 0 <= end <= len(text):
        raise NoValue(f"index out of range: {end}")
    return str(text[start:end])


def join(run: Evaluation, parts: Any, separator: Any = "") -> str:
    for part in parts:
        _texts(part)
    run.traverse(2 * (sum(map(len, parts)) + max(0, len(parts) - 1) * len(separator)))
    return str(separator).join(parts)


_ESCAPED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(run: Evaluation, text: Any) -> str:
    run.traverse(len(text))
    return '"' + "".join(_ESCAPED.get(sign, sign) for sign in text) + '"'


def formatted(run: Evaluation, text: Any, values: Any) -> str:
    run.traverse(len(text))
    pieces: list[str] = []
    place = used = 0
    while (at := text.find("%", place)) >= 0:
        pieces.append(text[place:at])
        match = _CLAUSE.match(text, at)
        if match is None:
            clause = text[at + 1 : at + 2]
            raise NoValue(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')
        place = match.end()
        if match[1]:
            pieces.append("%")
            continue
        if used >= len(values):
            raise NoValue(f"index {used} out of range")
        part = _clause(run, match[3], 6 if match[2] is None else int(match[2]), values[used])
        run.traverse(len(part))
        pieces.append(part)
        used += 1
    return "".join(pieces) + str(text[place:])


def _clause(run: Evaluation, clause: str, precision: int, value: Any) -> str:
    kind = type(value)
    if clause == "s":
        return plain(run, value)
    if clause == "d" and kind in (int, UInt):
        return str(int(value))
    if clause in "fe" and kind in (float, int, UInt):
        number = f"{float(value):.{precision}{clause}}"
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(number, number)
    if clause == "b" and kind in (int, UInt, bool):
        return f"{int(value):b}"
    if clause == "o" and kind in (int, UInt):
        return f"{int(value):o}"
    if clause in "xX" and kind in (int, UInt):
        return f"{int(value):{clause}}"
    if clause in "xX" and kind in (str, bytes):
        digits = (value.encode() if kind is str else value).hex()
        return str(digits if clause == "x" else digits.upper())
    expectation = {
        "d": "an integer",
        "f": "a number",
        "e": "a number",
        "b": "an integer or a bool",
        "o": "an integer",
        "x": "an integer, a string or bytes",
        "X": "an integer, a string or bytes",
    }[clause]
    raise NoValue(f"error during formatting: %{clause} takes {expectation}, got {type_name(value)}")


def plain(run: Evaluation, value: Any) -> str:
    """A value as %s shows it."""
    if value is None:
        return "null"
    if type(value) is float:
        return {"+Inf": "Infinity", "-Inf": "-Infinity"}.get(number_text(value), number_text(value))
    if type(value) is TypeValue:
        return value.name
    if type(value) in (list, dict):
        run.spend(4 * len(value))
    if type(value) is list:
        return "[" + ", ".join(plain(run, item) for item in value) + "]"
    if type(value) is dict:
        pairs = sorted((plain(run, key), plain(run, item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if type(value) in (Timestamp, Duration):
        return str(value)
    return to_string(run, value)


TEXTS: dict[str, tuple[Callable[..., Any], int]] = {
    "contains": (contains, 0),
    "startsWith": (starts_with, 0),
    "endsWith": (ends_with, 0),
    "matches": (matches, 0),
    "find": (find, 0),
    "findAll": (find_all, 0),
    "charAt": (char_at, 1),
    "indexOf": (index_of, 0),
    "lastIndexOf": (last_index_of, 0),
    "lowerAscii": (lower, 0),
    "upperAscii": (upper, 0),
    "trim": (trim, 0),
    "replace": (replace, 0),
    "split": (split, 0),
    "substring": (substring, 0),
    "join": (join, 0),
    "strings.quote": (quote, 0),
    "format": (formatted, 0),
}
