"""Pruning: fields that a schema does not know go. Clients that asked for it are told their names (fieldValidation)."""

from __future__ import annotations

from typing import Any

from api.engine.schema import Node

Removed = tuple[dict[str, Any], str, Any]  # where it was, its name, its value


def prune(node: Node, value: Any, path: str, unknown: list[str], removed: list[Removed] | None = None) -> None:
    """Remove unknown fields from `value` in place. The path of each is added to `unknown`, and the data that would put
    it back to `removed`.

    Values of another type than the schema says are left alone: validation names them.
    """
    if value.__class__ is dict:
        if node.open:
            return
        dead: list[str] | None = None
        child_of = node.child
        for key, inner in value.items():
            child = child_of(key)
            if child is None:
                if not node.preserve:
                    if node.types is not None and dict not in node.types:
                        return
                    dead = dead or []
                    dead.append(key)
            elif inner.__class__ is dict or inner.__class__ is list:
                prune(child, inner, f"{path}.{key}" if path else key, unknown, removed)
        if dead is not None:
            for key in dead:
                if removed is not None:
                    removed.append((value, key, value[key]))
                del value[key]
                unknown.append(f"{path}.{key}" if path else key)
    elif value.__class__ is list:
        items = node.items
        if items is None or items.open:
            return
        for index, inner in enumerate(value):
            if inner.__class__ is dict or inner.__class__ is list:
                prune(items, inner, f"{path}[{index}]", unknown, removed)
