"""The objects of one resource by their labels, for lists that ask for one.

A label is indexed from the first list that asks for its key. Writes cost nothing before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from fleet.ports import Stored
from fleet.store.ordered import Name

MAX_KEYS = 8  # of one resource; a list that asks for another key drops the key that was asked for longest ago


class LabelIndex:
    """Names by label, for the keys that lists have asked for."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: OrderedDict[str, dict[str, set[Name]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, key: str, values: Iterable[str], objects: Iterable[Stored]) -> set[Name]:
        """The names of the objects whose label `key` has one of the values. `objects`: all there are."""
        by_value = self._keys.get(key)
        if by_value is None:
            by_value = self._keys[key] = {}
            for stored in objects:
                _add(by_value, _labels(stored).get(key), stored)
            if len(self._keys) > MAX_KEYS:
                self._keys.popitem(last=False)
        self._keys.move_to_end(key)
        return set().union(*(by_value.get(value, ()) for value in values))

    def replace(self, past: Stored | None, now: Stored | None) -> None:
        """Note that an object came, changed or went."""
        before, after = _labels(past) if past else {}, _labels(now) if now else {}
        for key, by_value in self._keys.items():
            was, is_now = before.get(key), after.get(key)
            if was == is_now:
                continue
            if past is not None and was is not None:
                names = by_value[was]
                names.discard(_name(past))
                if not names:
                    del by_value[was]
            if now is not None:
                _add(by_value, is_now, now)


def _add(by_value: dict[str, set[Name]], value: str | None, stored: Stored) -> None:
    if value is not None:
        by_value.setdefault(value, set()).add(_name(stored))


def _name(stored: Stored) -> Name:
    return stored.key.namespace, stored.key.name


def _labels(stored: Stored) -> dict[str, str]:
    return stored.body["metadata"].get("labels") or {}
