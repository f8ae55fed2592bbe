"""A flaw that ordinary parsers accept and strict field validation refuses: a field given twice."""

from __future__ import annotations

import json
from typing import Any

import orjson


class _DuplicateField(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> None:
    """Values are dropped at once: only the keys of each object matter for the first pass."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise _DuplicateField


def duplicates(data: bytes, parsed: Any) -> list[str]:
    """`duplicate field "spec.x"` for each key that stands twice in one JSON object; `data` parses as JSON, to `parsed`,
    and is not too deep for a parser that recurses."""
    if _as_many_keys(data, parsed):
        return []
    try:
        json.loads(data, object_pairs_hook=_pairs)
    except _DuplicateField:
        return _paths(data)
    except ValueError:
        return []  # the strict parser has accepted it, so only spelling differs
    return []


def _as_many_keys(data: bytes, parsed: Any) -> bool:
    """Whether no key can have been lost in parsing, at a tenth of the cost of a look at each: every key has its colon,
    and the colons in strings stand in both texts, unless they are written as codes."""
    return b"\\u" not in data and data.count(b":") == orjson.dumps(parsed).count(b":")


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, told apart from an array."""


def _paths(data: bytes) -> list[str]:
    problems: dict[str, None] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, inner in value:
                where = f"{path}.{key}" if path else key
                if key in seen:
                    problems[f'duplicate field "{where}"'] = None
                seen.add(key)
                walk(inner, where)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, f"{path}[{index}]")

    walk(json.loads(data, object_pairs_hook=_Pairs), "")
    return list(problems)
