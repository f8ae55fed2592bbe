"""Amounts of resources: exact integers per resource name.

Base units: "cpu" counts milli-CPU, every other resource counts whole units (memory in bytes, nvidia.com/gpu in GPUs,
kube-queue/max-jobs in jobs). A missing resource is zero in an amount and unlimited in a limit; nothing here is ever
a float or a 32-bit number, so a memory limit above 2 GiB is a limit like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

GPU = "/gpu"  # the end of names of resources: nvidia.com/gpu, amd.com/gpu, …


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
        """Whether `room` has at least every amount."""
        return all(amount <= room[name] for name, amount in self.items_)


NOTHING = Amounts()


def gpus_in(amounts: Amounts) -> int:
    """The GPUs of all makes."""
    return sum(amount for name, amount in amounts.items_ if name.endswith(GPU))
