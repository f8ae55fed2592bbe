"""Quantities as Kubernetes writes them: whether text is one, asked before anything computes with it; amounts as text.

Decimal reads more than Kubernetes does (underscores, "Infinity", exponents of nine digits, which would take gigabytes
as an integer), so text is judged by its form first; amounts stay below 2^63, as in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fleet.model.amounts import BadQuantity, parse_quantity

_FORM = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2}|[numkMGTPE]|[KMGTPE]i)?")
LARGEST = 2**63 - 1
_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def quantity(value: object, resource: str = "") -> int:
    """`value` in base units of `resource`. Raises BadQuantity, with a text that starts with what is wrong."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadQuantity("must be a quantity such as 8, 500m or 64Gi")
    if not _FORM.fullmatch(str(value)):
        raise BadQuantity("must be a quantity such as 8, 500m or 64Gi")
    amount = parse_quantity(value, resource)
    if abs(amount) > LARGEST:
        raise BadQuantity("is larger than any amount can be")
    return amount


def text_of(resource: str, amount: int) -> str:
    """An amount in base units, exactly: 500 of cpu is "500m", 2**30 of memory "1Gi", 8 of anything else "8"."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, factor in _BINARY:
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}"
    return str(amount)


def texts_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Of several, in their order."""
    return {name: text_of(name, amount) for name, amount in amounts.items()}
