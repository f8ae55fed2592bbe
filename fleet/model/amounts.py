"""Amounts of resources: exact integers per resource name, and quantities as Kubernetes writes them.

Base units: "cpu" counts milli-CPU, every other resource counts whole units (memory in bytes, nvidia.com/gpu in GPUs,
kube-queue/max-jobs in jobs). A missing resource is zero in an amount and unlimited in a limit; nothing here is ever
a float or a 32-bit number, so a memory limit above 2 GiB is a limit like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

TEXT_MAX = 80  # characters of a quantity
_SUFFIXES = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


class BadQuantity(ValueError):
    """The text is not a Kubernetes quantity."""


def parse_quantity(value: object, resource: str = "") -> int:
    """A quantity in base units of `resource`, rounded up, as kube-scheduler rounds. Takes YAML numbers and strings.

    parse_quantity("500m", "cpu") == 500; parse_quantity("1Gi") == 1073741824; parse_quantity(8) == 8.
    Raises BadQuantity for anything else, and for what is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadQuantity(f"{value!r} is not a quantity")
    text = str(value).strip()
    if len(text) > TEXT_MAX:
        raise BadQuantity(f"{text[:TEXT_MAX]}... is not a quantity")
    number, scale = text, _SUFFIXES[""]
    for length in (2, 1):
        suffix = text[-length:]
        if len(text) > length and suffix in _SUFFIXES and not suffix.isdigit():
            number, scale = text[:-length], _SUFFIXES[suffix]
            break
    try:
        exact = Decimal(number) * scale
    except ArithmeticError:
        raise BadQuantity(f"{value!r} is not a quantity") from None
    if exact and exact.is_finite() and exact.adjusted() > TEXT_MAX:  # as an integer it could take gigabytes
        raise BadQuantity("is larger than any amount can be")
    if not exact.is_finite() or not number or number[-1] in "eE+-":
        raise BadQuantity(f"{value!r} is not a quantity")
    if resource == "cpu":
        exact *= 1000
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))


@dataclass(frozen=True, slots=True)
class Amounts(Mapping[str, int]):
    """An immutable vector of amounts. Zero entries are dropped, so equal amounts are equal objects."""

    items_: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(amounts: Mapping[str, int]) -> Amounts:
        return Amounts(tuple(sorted((k, v) for k, v in amounts.items() if v)))

    def __getitem__(self, resource: str) -> int:
        for name, amount in self.items_:
            if name == resource:
                return amount
        return 0

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def plus(self, other: Amounts, times: int = 1) -> Amounts:
        total = dict(self.items_)
        for name, amount in other.items_:
            total[name] = total.get(name, 0) + amount * times
        return Amounts.of(total)

    def minus(self, other: Amounts, times: int = 1) -> Amounts:
        return self.plus(other, -times)

    def times(self, factor: int) -> Amounts:
        return Amounts(tuple((name, amount * factor) for name, amount in self.items_ if factor))

    def fits(self, room: Amounts) -> bool:
        """Whether every amount is at most what `room` has."""
        return all(amount <= room[name] for name, amount in self.items_)


NOTHING = Amounts()
