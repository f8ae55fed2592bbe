"""Defaulting from the schema: absent fields, and nulls where the field cannot be null, take the schema's default.

The walk meets every field, so it also says whether any is unknown: objects that have none, nearly all, are spared the
walk that prunes.
"""

from __future__ import annotations

import copy
from typing import Any

from api.engine.schema import Node
from api.engine.status import StatusError

BYTES_MAX = 3 << 20  # of the defaults that one object gets: a large default in the items of a long list is a bomb


def default(node: Node, value: Any, spent: list[int] | None = None, old: Any = None) -> bool:
    """Fill defaults into `value` in place, from the outside in, so that defaults of a defaulted object apply too. True
    when there is something that `prune` has to look at.

    A null for a field that is not nullable and has no default is removed, as a kube-apiserver does; in built-in types
    a null is always as good as nothing. `spent` counts the bytes that have been added; StatusError 413
    beyond BYTES_MAX. `old`: a value of this place that has been through here; parts that are as in it are passed over.
    """
    strange = False
    if spent is None:
        spent = [0]
    if value.__class__ is dict:
        if node.own_defaults:
            _fill(node, value, spent)
        if node.open:
            return False
        dead: list[str] | None = None
        child_of = node.child
        was = None
        known = old if old.__class__ is dict else None
        for key, inner in value.items():
            if known is not None:
                was = known.get(key)
                if was is not None and was.__class__ is inner.__class__ and was == inner:
                    continue
            child = child_of(key)
            if child is None:
                strange = strange or not node.preserve
            elif inner.__class__ is dict or inner.__class__ is list:
                strange = default(child, inner, spent, was) or strange
            elif inner is None and (child.builtin or not (child.nullable or child.open)):
                dead = dead or []
                dead.append(key)
        if dead is not None:
            for key in dead:
                del value[key]
    elif value.__class__ is list:
        items = node.items
        if items is not None and not items.open:
            return _default_items(items, value, spent, old)
    return strange


def _fill(node: Node, value: dict[str, Any], spent: list[int]) -> None:
    """Set the fields that are absent and have a default."""
    for key in node.own_defaults:
        if value.get(key) is None:
            child = node.child(key)
            assert child is not None
            if key not in value or not child.nullable:
                spent[0] += child.default_size
                if spent[0] > BYTES_MAX:
                    text = f"Request entity too large: the defaults of its schema add more than {BYTES_MAX} bytes"
                    raise StatusError(413, "RequestEntityTooLarge", text)
                value[key] = copy.deepcopy(child.default)


def _default_items(items: Node, value: list[Any], spent: list[int], old: Any) -> bool:
    """The same for each item of a list."""
    strange = False
    before = old if old.__class__ is list else ()
    for index, inner in enumerate(value):
        was = before[index] if index < len(before) else None
        if was is not None and was == inner:
            continue
        if inner.__class__ is dict or inner.__class__ is list:
            strange = default(items, inner, spent, was) or strange
    return strange
