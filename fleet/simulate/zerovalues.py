"""Values for the fields that a schema requires: a real operator writes the zero values of Go where it has nothing to
say, and a simulated one knows no more of a kind than its definition."""

from __future__ import annotations

import copy
from typing import Any

from api.engine.kind import Schema


def completed(schema: Schema, value: Any, now: str) -> Any:
    """The value, with all that its schema requires; changed in place."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name in schema.get("required") or ():
            if value.get(name) is None:
                value[name] = _zero(properties.get(name) or {}, now)
        more = schema.get("additionalProperties")
        for name, inner in value.items():
            below = properties.get(name, more)
            if isinstance(below, dict) and isinstance(inner, dict | list):
                completed(below, inner, now)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            completed(schema["items"], item, now)
    return value


def _zero(schema: Schema, now: str) -> Any:
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            return now if schema.get("format") == "date-time" else ""
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "array":
            return []
    return completed(schema, {}, now)
