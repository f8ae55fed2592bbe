"""Reading bodies that nothing vouches for: stored before a check existed, or written by a member.

A schema refuses a null among containers today, but an object that was stored before it did still holds one, and a
reader that trips over it would take a list, a loop or somebody else's request down. What is not of the type that a
reader needs counts as not being there.
"""

from __future__ import annotations

from typing import Any


def mapping(value: Any) -> dict[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if value.__class__ is dict else {}


def rows(value: Any) -> list[dict[str, Any]]:
    """The items of a list that are objects; none when it is no list."""
    return [item for item in value if item.__class__ is dict] if value.__class__ is list else []


def text(value: Any) -> str:
    """`value` when it is a text, else an empty one."""
    return value if value.__class__ is str else ""


def texts(value: Any) -> tuple[str, ...]:
    """The items of a list that are texts; none when it is no list."""
    return tuple(item for item in value if item.__class__ is str) if value.__class__ is list else ()


def whole(value: Any, otherwise: int) -> int:
    """`value` when it is a whole number (3.0 is one), else `otherwise`."""
    if value.__class__ is int:
        return int(value)
    return int(value) if value.__class__ is float and value.is_integer() else otherwise


def at(value: Any, *keys: str) -> Any:
    """What stands below the keys; None when anything on the way is missing or no object."""
    for key in keys:
        value = value.get(key) if value.__class__ is dict else None
    return value
