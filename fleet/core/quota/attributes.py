"""Amounts that stand in an attribute of a node of the tree, as the text of a JSON object: {"nvidia.com/gpu": 8}.

Raises BadQuantity throughout, with a text that begins with the attribute's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fleet.values.quantity import BadQuantity, quantity


def json_object(attributes: Mapping[str, str], name: str, example: str) -> dict[str, Any]:
    """The attribute's object; {} without it."""
    text = attributes.get(name)
    if text is None:
        return {}
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise BadQuantity(f"{name}: must be a JSON object such as {example}")
    return given


def amounts(given: Mapping[str, Any], where: str) -> dict[str, int]:
    """By resource, in base units; `where`: the beginning of a refusal."""
    base_amounts: dict[str, int] = {}
    for resource, value in given.items():
        try:
            base_amounts[resource] = quantity(value, resource)
        except BadQuantity as error:
            raise BadQuantity(f"{where}: {resource}: {error}") from None
        if base_amounts[resource] < 0:
            raise BadQuantity(f"{where}: {resource}: must not be negative")
    return base_amounts
