"""What belongs to a binding, over all members: found by binding in one step, however many members there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

V = TypeVar("V")


class ByBinding(Generic[V]):
    """Values under (binding, member, id)."""

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[str, str], V]] = {}

    def put(self, binding: str, member: str, id: str, value: V) -> None:
        self._of.setdefault(binding, {})[member, id] = value

    def drop(self, binding: str, member: str, id: str) -> None:
        values = self._of.get(binding)
        if values is not None:
            values.pop((member, id), None)
            if not values:
                del self._of[binding]

    def values(self, binding: str) -> Sequence[V]:
        return tuple(self._of.get(binding, {}).values())

    def items(self, binding: str) -> Sequence[tuple[str, V]]:
        """(member, value) pairs."""
        return tuple((member, value) for (member, _), value in self._of.get(binding, {}).items())
