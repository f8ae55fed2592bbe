"""The objects and pods of a binding, over all members: found by binding in one step, however many members there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

V = TypeVar("V")


class ByBinding(Generic[V]):
    """Values under (binding, member, id)."""

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[str, str], V]] = {}
        self._values: dict[str, tuple[V, ...]] = {}
        self._items: dict[str, tuple[tuple[str, V], ...]] = {}

    def _changed(self, binding: str) -> None:
        self._values.pop(binding, None)
        self._items.pop(binding, None)

    def put(self, binding: str, member: str, id: str, value: V) -> None:
        self._of.setdefault(binding, {})[member, id] = value
        self._changed(binding)

    def drop(self, binding: str, member: str, id: str) -> None:
        values = self._of.get(binding)
        if values is not None:
            values.pop((member, id), None)
            self._changed(binding)
            if not values:
                del self._of[binding]

    def values(self, binding: str) -> Sequence[V]:
        """The same tuple until something of the binding changes, so that callers can tell by its identity."""
        if binding not in self._of:
            return ()
        found = self._values.get(binding)
        if found is None:
            found = self._values[binding] = tuple(self._of[binding].values())
        return found

    def items(self, binding: str) -> Sequence[tuple[str, V]]:
        """(member, value) pairs; the same tuple until something of the binding changes."""
        if binding not in self._of:
            return ()
        found = self._items.get(binding)
        if found is None:
            found = self._items[binding] = tuple((member, value) for (member, _), value in self._of[binding].items())
        return found
