"""Label values whose number is bounded: the first ones have rows of their own, all later ones share a row."""

from __future__ import annotations


class BoundedValues:
    """`most` values that came first stay for the life of the process, since a counter must not lose its past."""

    def __init__(self, most: int, others: str) -> None:
        self._most, self._others = most, others
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value not in self._known:
            if len(self._known) >= self._most:
                return self._others
            self._known.add(value)
        return value
