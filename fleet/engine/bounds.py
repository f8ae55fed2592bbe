"""Bounds on what an object may be, whoever made it, and on numbers in text.

They hold before anything recursive sees the object: the parsers and walkers behind them may then recurse.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

import orjson

from fleet.engine.status import Cause, StatusError, bad_request, invalid

DEPTH_MAX = 100  # objects and lists inside each other, in a body and in what is stored
STORED_BYTES_MAX = 3 * 512 * 1024  # of an object as JSON: what etcd takes by default
_INT64 = (-(1 << 63), (1 << 63) - 1)
_INT64_DIGITS = 20
_PIECE = 1 << 16  # brackets counted at once: other threads get a turn in between

_KEPT = b'[]{}"'
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in _KEPT)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")  # signed bytes: one deeper, one back


def too_deep(data: bytes) -> bool:
    """Whether JSON text is nested deeper than DEPTH_MAX. Linear in its length, at the speed of C; text that is no JSON
    gets an answer too, which means nothing."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes in a row are an empty string, or end one and begin the next: neither matters for what is a bracket.
    marks = data.translate(_SQUARE, _ALL_ELSE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    # What has no children goes first, and stood one deeper than what is left.
    steps = array("b", marks.replace(b"[]", b"").translate(_STEPS))
    depth = 0
    for at in range(0, len(steps), _PIECE):
        piece = steps[at : at + _PIECE]
        if depth + max(accumulate(piece)) >= DEPTH_MAX:
            return True
        depth += sum(piece)
    return False


def refuse_depth(data: bytes) -> None:
    """StatusError 400 for JSON text that is nested too deeply."""
    if too_deep(data):
        raise bad_request(f"the body is nested deeper than {DEPTH_MAX} objects and lists")


def check_stored(group: str, kind: str, name: str, body: Any) -> None:
    """Refuse what is too large or too deep to be stored: StatusError 413 or 422."""
    try:
        data = orjson.dumps(body)
    except TypeError as error:  # deeper than its encoder goes, or a number that JSON does not have
        raise invalid(group, kind, name, [Cause("", f"Invalid value: it cannot be stored: {error}")]) from None
    if len(data) > STORED_BYTES_MAX:
        text = f"Request entity too large: {kind} {name!r} would be stored as {len(data)} bytes"
        raise StatusError(
            413, "RequestEntityTooLarge", f"{text}, limit is {STORED_BYTES_MAX}", group=group, kind=kind, name=name
        )
    if too_deep(data):
        text = f"Invalid value: it is nested deeper than {DEPTH_MAX} objects and lists"
        raise invalid(group, kind, name, [Cause("", text)])


def int64(text: str) -> int | None:
    """The decimal number in the text, None for what is none or has more than 64 bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _INT64_DIGITS:
        return None
    number = int(text)
    return number if _INT64[0] <= number <= _INT64[1] else None
