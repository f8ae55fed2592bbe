"""Runs the rules in CEL of a schema over an object, and finds the values that an object had before.

A rule may compare a value with the one that the write replaces. So a value has an old one where both are under one name
or key; the items of other lists have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import orjson

from api.engine.rules import RuleBudget, evaluate
from api.engine.schema import Node
from api.engine.status import CAUSES_MAX, Cause
from fleet.values.cel.values import equal


def compared_fields(node: Node, same: Iterable[str]) -> frozenset[str]:
    """Those of the fields that hold rules about the change of a value: such a rule may refuse that there is none."""
    return frozenset(key for key in same if (child := node.child(key)) is not None and child.compares)


def by_keys(node: Node, items: list[Any]) -> dict[str, Any]:
    """The items of a list that are known by their keys; empty for another kind of list."""
    if node.list_type != "map":
        return {}
    return {keys_of(node, item): item for item in items if item.__class__ is dict}


def keys_of(node: Node, item: Any) -> str:
    """The keys of an item as a text; "" for what is no object."""
    if item.__class__ is not dict:
        return ""
    return orjson.dumps([item.get(key) for key in node.list_map_keys], option=orjson.OPT_SORT_KEYS).decode()


def run_rules(
    node: Node, value: Any, old: Any, path: str, causes: list[Cause], budget: RuleBudget, near: tuple[Any, Any]
) -> None:
    """`old`: what the value was, None where nothing tells. `near`: the nearest value around this one of which it is
    known, with what that was: a rule spares a value that a write leaves as it was."""
    if value is None or budget.balance < 0 or len(causes) > CAUSES_MAX:
        return
    if old is not None:
        near = (value, old)
    if node.rules:
        kept = partial(equal, *near)
        causes += evaluate(node.rules, value, old, node.type, path, budget, kept)
    if value.__class__ is dict:
        if node.open:
            return
        before = old if old.__class__ is dict else {}
        for key, inner in value.items():
            child = node.child(key)
            if child is not None and (child.rules or inner.__class__ in (dict, list)):
                place = key if not path else f"{path}.{key}" if node.is_field(key) else f"{path}[{key}]"
                run_rules(child, inner, before.get(key), place, causes, budget, near)
    elif value.__class__ is list and node.items is not None:
        items = node.items
        keyed = by_keys(node, old if old.__class__ is list else [])
        for index, inner in enumerate(value):
            match = keyed.get(keys_of(node, inner)) if keyed else None
            if items.rules or inner.__class__ in (dict, list):
                run_rules(items, inner, match, f"{path}[{index}]", causes, budget, near)
