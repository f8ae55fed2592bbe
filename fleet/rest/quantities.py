"""Amounts out of stored objects, and back into the text that people and Kubernetes read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.kinds.requests import amounts
from fleet.values.quantity import BadQuantity, texts_of

_GPU = "/gpu"  # nvidia.com/gpu, amd.com/gpu, …


def amounts_of(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Base units by resource; text by hand that is no quantity counts as nothing."""
    try:
        return amounts(quantities)
    except BadQuantity:
        return {}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """As text, by name of the resource."""
    return texts_of(dict(sorted(amounts.items())))


def add(total: dict[str, int], more: Mapping[str, int], times: int = 1) -> None:
    """Add to `total` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def gpus(amounts: Mapping[str, int]) -> int:
    """Devices of all resources called …/gpu."""
    return sum(amount for name, amount in amounts.items() if name.endswith(_GPU))
