"""Bounds on an object, from any maker, and on numbers in text.

The bounds hold before anything recursive sees the object, so the parsers and walkers behind them may recurse.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

import orjson

from api.engine.status import Cause, StatusError, bad_request, invalid
from fleet.values.untyped import DEPTH_MAX

CONTAINERS_MAX = 64_000  # objects and lists in all: while a parser makes them, nothing else of the process runs
STORED_BYTES_MAX = 3 * 512 * 1024  # of an object as JSON: the default bound of etcd
_INT64 = (-(1 << 63), (1 << 63) - 1)
_INT64_DIGITS = 20
_ROUNDS = 10
_PIECE = 1 << 16  # brackets counted at once: other threads get a turn in between

_KEPT = b'[]{}"'
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in _KEPT)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")  # signed bytes: one deeper, one back


_TOO_DEEP = f"nested deeper than {DEPTH_MAX} objects and lists"
TOO_MANY = f"more than {CONTAINERS_MAX} objects and lists"


def too_deep(data: bytes) -> bool:
    """Whether JSON text is nested deeper than DEPTH_MAX. Linear in its length, at the speed of C; text that is no JSON
    gets an answer too, which means nothing."""
    return _deeper(_brackets(data))


def refuse_shape(data: bytes) -> None:
    """StatusError 400 for JSON text that is nested too deeply, 413 for one of too many objects and lists."""
    brackets = _brackets(data)
    if brackets.count(b"[") > CONTAINERS_MAX:
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {TOO_MANY}")
    if _deeper(brackets):
        raise bad_request(f"the body is {_TOO_DEEP}")


def containers(data: bytes) -> int:
    """The number of objects and lists in JSON text; 0 where there are too few to matter."""
    return _brackets(data).count(b"[")


def _brackets(data: bytes) -> bytes:
    """The brackets of objects and lists, all as [ and ]; empty where there is too little to matter."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return b""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes in a row are an empty string, or end one and begin the next: neither matters for what is a bracket.
    marks = data.translate(_SQUARE, _ALL_ELSE).replace(b'""', b"")
    return b"".join(marks.split(b'"')[::2]) if b'"' in marks else marks


def _deeper(brackets: bytes) -> bool:
    for _ in range(_ROUNDS):  # objects without children go, level by level: most are gone soon
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    steps = array("b", brackets.translate(_STEPS))
    depth = _ROUNDS
    for at in range(0, len(steps), _PIECE):
        piece = steps[at : at + _PIECE]
        if depth + max(accumulate(piece)) > DEPTH_MAX:
            return True
        depth += sum(piece)
    return False


def encoded(body: Any) -> bytes:
    """As JSON; StatusError 400 for what is too deep for it, or holds what JSON does not have."""
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise bad_request(f"the object cannot be written as JSON: {error}") from None


def private(body: Any) -> Any:
    """A copy that shares nothing with what the store or the caller holds."""
    return orjson.loads(encoded(body))


def check_stored(group: str, kind: str, name: str, body: Any) -> None:
    """Refuse what is too large or too deep to be stored: StatusError 413 or 422."""
    data = encoded(body)
    if len(data) > STORED_BYTES_MAX:
        text = f"Request entity too large: {kind} {name!r} would be stored as {len(data)} bytes"
        raise StatusError(
            413, "RequestEntityTooLarge", f"{text}, limit is {STORED_BYTES_MAX}", group=group, kind=kind, name=name
        )
    brackets = _brackets(data)
    many = brackets.count(b"[") > CONTAINERS_MAX
    if many or _deeper(brackets):
        text = f"it has {TOO_MANY}" if many else f"it is {_TOO_DEEP}"
        raise invalid(group, kind, name, [Cause("", f"Invalid value: {text}")])


def int64(text: str) -> int | None:
    """The decimal number in the text, None for what is none or has more than 64 bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _INT64_DIGITS:
        return None
    number = int(text)
    return number if _INT64[0] <= number <= _INT64[1] else None
