"""Amounts out of stored objects, and back into the text that people and Kubernetes read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.kinds.requests import amounts
from fleet.model.amounts import BadQuantity

_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_GPU = "/gpu"  # nvidia.com/gpu, amd.com/gpu, …


def amounts_of(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Base units by resource; what a person wrote by hand and is no quantity counts as nothing."""
    try:
        return amounts(quantities)
    except BadQuantity:
        return {}


def quantity(resource: str, amount: int) -> str:
    """500 of cpu is "500m", 2**30 of memory "1Gi", 8 of anything else "8"."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, factor in _BINARY:
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}"
    return str(amount)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity(name, amount) for name, amount in sorted(amounts.items())}


def add(total: dict[str, int], more: Mapping[str, int], times: int = 1) -> None:
    """Add to `total` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount * times


def gpus(amounts: Mapping[str, int]) -> int:
    """Devices of all resources called …/gpu."""
    return sum(amount for name, amount in amounts.items() if name.endswith(_GPU))


def whole(components: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], int]:
    """What all replicas of a binding's components ask for together, and how many pods they are."""
    total: dict[str, int] = {}
    pods = 0
    for component in components:
        replicas = int(component.get("replicas") or 0)
        pods += replicas
        add(total, amounts_of((component.get("replicaRequirements") or {}).get("resourceRequest")), replicas)
    return total, pods
