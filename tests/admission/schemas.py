"""The fields of a schema by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.admission.unread import Field

Schema = dict[str, Any]


def children(schema: Schema) -> dict[str, tuple[str, Schema]]:
    """By name: the field as a path writes it, and the schema of what is below."""
    found: dict[str, tuple[str, Schema]] = {}
    for name, child in (schema.get("properties") or {}).items():
        written, inner = name, child
        if isinstance(inner.get("items"), dict):
            written, inner = f"{written}[]", inner["items"]
        elif isinstance(inner.get("additionalProperties"), dict) and inner["additionalProperties"].get("properties"):
            written, inner = f"{written}{{}}", inner["additionalProperties"]
        found[name] = (written, inner)
    return found


def uncovered(schema: Schema, path: str, fields: dict[str, Field], covered: bool) -> Iterator[str]:
    """The fields that no entry is for: neither one of their own, nor one of what they are in."""
    covered = covered or path in fields or path.removesuffix("[]").removesuffix("{}") in fields
    below = any(other.startswith(f"{path}.") for other in fields)
    if not below:
        if not covered:
            yield path
        return
    for written, child in children(schema).values():
        yield from uncovered(child, f"{path}.{written}", fields, covered)


def found_at(schema: Schema, path: str) -> Schema | None:
    """The schema of the field that a path names; None where there is none."""
    for step in path.split("."):
        if isinstance(schema.get("additionalProperties"), dict) and not schema.get("properties"):
            schema = schema["additionalProperties"]
            continue
        whole = children(schema).get(step.removesuffix("[]").removesuffix("{}"))
        if whole is None or (step.endswith(("[]", "{}")) and whole[0] != step):
            return None
        bare = schema["properties"][step.removesuffix("[]").removesuffix("{}")]
        schema = whole[1] if whole[0] == step else bare
    return schema
