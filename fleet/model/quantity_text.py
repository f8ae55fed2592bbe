"""Is this a quantity? Asked of text from users, before anything computes with it.

Decimal reads more than Kubernetes does (underscores, "Infinity", exponents of nine digits, which would take gigabytes
as an integer), so text is judged by its form first; amounts stay below 2^63, as in Kubernetes.
"""

from __future__ import annotations

import re

from fleet.model.amounts import BadQuantity, parse_quantity

_FORM = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2}|[numkMGTPE]|[KMGTPE]i)?")
LARGEST = 2**63 - 1


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
