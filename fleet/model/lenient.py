"""Parts of a stored object, read without trust in their types.

What is stored was checked when it was written, but perhaps by an older schema, around admission, or in a member's API.
A reader that expects an object or a list and meets something else takes it as missing: one odd field costs its own
object a part, and no loop a turn. What a loop cannot do without, it asks for in the plain way, and fails on that object
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NOTHING: Mapping[str, Any] = {}


def part(value: object) -> Mapping[str, Any]:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else _NOTHING


def objects(value: object) -> Sequence[dict[str, Any]]:
    """The objects of a list; nothing for anything else. The list itself where it holds objects alone."""
    if not isinstance(value, list):
        return ()
    return value if all(isinstance(entry, dict) for entry in value) else [e for e in value if isinstance(e, dict)]


def texts(value: object) -> Sequence[str]:
    """The texts of a list; nothing for anything else."""
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else ()


def text(value: object) -> str:
    """The text, or "" for anything else."""
    return value if isinstance(value, str) else ""


def pairs(value: object) -> Mapping[str, str]:
    """Labels or annotations: the entries of an object whose values are texts."""
    if not isinstance(value, dict):
        return _NOTHING
    return value if all(isinstance(v, str) for v in value.values()) else {k: v for k, v in value.items() if text(v)}


def whole(value: object, default: int = 0) -> int:
    """The whole number, `default` for anything else. A Boolean is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def number(value: object) -> int:
    """A whole number of 64 bits, for a reader that cannot do without. Raises ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{str(value)[:40]} is no whole number of 64 bits")
    return value


def named(value: object) -> str:
    """A text that is not empty, for a reader that cannot do without. Raises ValueError for anything else."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{str(value)[:40]!r} is no name")
    return value
