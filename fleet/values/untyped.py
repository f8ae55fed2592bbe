"""Reading bodies that nothing vouches for: stored before a check existed, or written by a member.

A schema refuses a null among containers today, but an object that was stored before it did still holds one, and a
reader that trips over it would take a list, a loop or another user's request down. A value that is not of the type that
a reader needs counts as missing. A loop that cannot do without a value asks for it with `number` or `named`, and fails
on that object alone.
"""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 100  # objects and lists inside each other, in a body and in what is stored


def mapping(value: Any) -> dict[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if value.__class__ is dict else {}


def rows(value: Any) -> list[dict[str, Any]]:
    """The items of a list that are objects; none when it is no list. The list itself where it holds objects alone."""
    if value.__class__ is not list:
        return []
    found: list[dict[str, Any]] = [item for item in value if item.__class__ is dict]
    return value if len(found) == len(value) else found


def text(value: Any) -> str:
    """`value` when it is a text, else an empty one."""
    return value if value.__class__ is str else ""


def texts(value: Any) -> tuple[str, ...]:
    """The items of a list that are texts; none when it is no list."""
    return tuple(item for item in value if item.__class__ is str) if value.__class__ is list else ()


def pairs(value: Any) -> dict[str, str]:
    """Labels or annotations: the entries of an object whose values are texts."""
    return {key: said for key, said in value.items() if said.__class__ is str} if value.__class__ is dict else {}


def number(value: Any) -> int:
    """A whole number of 64 bits, for a reader that cannot do without. Raises ValueError for anything else."""
    if value.__class__ is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"{str(value)[:40]} is no whole number of 64 bits")
    return int(value)


def whole(value: Any, otherwise: int = 0) -> int:
    """`value` when it is a whole number (3.0 is one), else `otherwise`."""
    if value.__class__ is int:
        return int(value)
    return int(value) if value.__class__ is float and value.is_integer() else otherwise


def digits(value: Any, most: int = 18) -> int | None:
    """The whole number that a text of ASCII digits says, at most `most` of them; None for anything else. (To `isdigit`
    alone "²" is a digit, too, which `int` refuses.)"""
    if value.__class__ is not str or not value.isascii() or not value.isdigit() or len(value) > most:
        return None
    return int(value)


def at(value: Any, *keys: str) -> Any:
    """The value below the keys; None when anything on the way is missing or no object."""
    for key in keys:
        value = value.get(key) if value.__class__ is dict else None
    return value
