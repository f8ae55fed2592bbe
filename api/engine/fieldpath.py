"""`fieldPath` of a rule: a path of fields and map keys that the schema knows, as a refusal names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class BadFieldPath(ValueError):
    """The text is no path, or one that the schema does not know."""


def field_path(text: str, schema: Mapping[str, Any]) -> str:
    """`.a['b.c'].d` as `a[b.c].d` where a map has the key, or `a.b.c.d` where an object has the field. Raises
    BadFieldPath."""
    return _followed(text, schema)[0]


def field_schema(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the field that the path leads to. Raises BadFieldPath."""
    return _followed(text, schema)[1]


def _followed(text: str, schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    path, place, node = "", 0, schema
    while place < len(text):
        match = _STEP.match(text, place)
        if match is None:
            raise BadFieldPath(f"expected [ or . but got: {text[place:].split('.')[0]}")
        place = match.end()
        key = match[1] if match[1] is not None else _ESCAPE.sub(_character, match[2])
        fields, additional = node.get("properties"), node.get("additionalProperties")
        if isinstance(fields, Mapping) and fields:
            if key not in fields:
                raise BadFieldPath("does not refer to a valid field")
            path, node = f"{path}.{key}" if path else key, fields[key]
        elif isinstance(additional, Mapping):
            path, node = f"{path}[{key}]", additional
        else:
            raise BadFieldPath("does not refer to a valid field")
    return path, node


def _character(match: re.Match[str]) -> str:
    if match[1] not in _PLAIN:
        raise BadFieldPath(f"invalid string literal: invalid escape char {match[0]}")
    return _PLAIN[match[1]]
