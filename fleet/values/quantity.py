"""Quantities as Kubernetes writes them: the one reading of their text, and amounts as text.

Decimal reads more than Kubernetes does: underscores, "Infinity", exponents of nine digits that would take gigabytes as
an integer. So the form of a text is judged first. Amounts stay below 2^63, as in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

LARGEST = 2**63 - 1  # of a resource, in base units
NANO = 10**9  # parts of a unit: Kubernetes keeps no finer ones
_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_BINARY_STEPS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL_STEPS = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_CHARACTERS_MAX = 100  # no longer text has the form of a quantity
_SCALES = {
    None: Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FORM = re.compile(
    r"([+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i))?"
)


class BadQuantity(ValueError):
    """A value is no Kubernetes quantity; the text starts with the fault."""


def quantity(value: object, resource: str = "") -> int:
    """Return `value` in base units of `resource`, rounded up, as kube-scheduler rounds. Takes YAML numbers and texts.

    quantity("500m", "cpu") == 500; quantity("1Gi") == 1073741824; quantity(8) == 8. Raises BadQuantity.
    """
    return rounded(nanos(value, resource), resource)


def rounded(parts: int, resource: str) -> int:
    """A sum of `nanos` in base units of `resource`, rounded up."""
    return -(-parts // (NANO // 1000 if resource == "cpu" else NANO))


def nanos(value: object, resource: str = "") -> int:
    """Return `value` in 10⁻⁹ of one unit, for sums that are rounded once. Raises BadQuantity, as `quantity` does."""
    form = None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        form = _FORM.fullmatch(str(value))
    if form is None:
        raise BadQuantity("must be a quantity such as 8, 500m or 64Gi")
    exact = Decimal(form[1] + (form[2] or "")) * _SCALES[form[3]] * NANO
    parts = int(exact.to_integral_value(rounding=ROUND_CEILING))
    if abs(rounded(parts, resource)) > LARGEST:
        raise BadQuantity("is larger than any amount can be")
    return parts


@lru_cache(maxsize=4096)
def _canonical(text: str, milli: bool) -> str:
    form = _FORM.fullmatch(text)
    if form is None:
        raise BadQuantity("must be a quantity such as 8, 500m or 64Gi")
    step = NANO // 1000 if milli else 1
    parts = -(-nanos(text) // step) * step
    sign, parts = ("-", -parts) if parts < 0 else ("", parts)
    if parts == 0:
        return "0"
    if (form[3] or "").endswith("i") and parts % NANO == 0 and parts >= 1024 * NANO:
        return sign + _shortened(parts // NANO, 1024, 0, _BINARY_STEPS)
    if form[2] is not None:
        exponent = -9
        while parts % 1000 == 0:
            parts, exponent = parts // 1000, exponent + 3
        return f"{sign}{parts}e{exponent}" if exponent else f"{sign}{parts}"
    return sign + _shortened(parts, 1000, 0, _DECIMAL_STEPS)


def _shortened(amount: int, base: int, step: int, steps: tuple[str, ...]) -> str:
    while amount % base == 0 and step + 1 < len(steps):
        amount, step = amount // base, step + 1
    return f"{amount}{steps[step]}"


def canonical(value: object, *, milli: bool = False) -> str:
    """The one text that Kubernetes writes for a quantity: "1024Mi" is "1Gi", 0.5 is "500m". `milli`: amounts of
    resources are rounded up to thousandths. Raises BadQuantity."""
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(text) > _CHARACTERS_MAX:
        raise BadQuantity("must be a quantity such as 8, 500m or 64Gi")
    return _canonical(text, milli)


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
