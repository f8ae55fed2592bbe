"""The objects of one resource by their labels, for lists that ask for one.

A label is indexed from the first list that asks for its key. Writes cost nothing before. An index is made in slices;
what changes meanwhile is put into it at the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from fleet.ports import Stored
from fleet.slices import unhurried
from fleet.store.ordered import Name, Ordered

MAX_KEYS = 8  # of one resource; a list that asks for another key drops the key that was asked for longest ago


class Change(NamedTuple):
    """The labels of an object before and after; none where it was not there."""

    name: Name
    before: Mapping[str, str]
    after: Mapping[str, str]


class LabelIndex:
    """Names by label, for the keys that lists have asked for."""

    __slots__ = ("_keys", "_missed")

    def __init__(self) -> None:
        self._keys: OrderedDict[str, dict[str, set[Name]]] = OrderedDict()
        self._missed: dict[str, list[Change]] = {}  # by keys whose index is being made

    def __bool__(self) -> bool:
        return bool(self._keys or self._missed)

    def find(self, key: str, values: frozenset[str] | None) -> set[Name] | None:
        """The names of the objects whose label `key` has one of the values (None: any). None where there is no
        index."""
        by_value = self._keys.get(key)
        if by_value is None:
            return None
        self._keys.move_to_end(key)
        return _of(by_value, values)

    async def make(self, key: str, values: frozenset[str] | None, objects: Ordered) -> set[Name] | None:
        """Index a key, and find as above among `objects`: all there are as this is called, which do not change
        meanwhile. None where somebody else is about to."""
        if key in self._missed:
            return None
        missed = self._missed[key] = []
        try:
            by_value: dict[str, set[Name]] = {}
            mark = f'"{key}":'.encode()  # keys and values of labels have no characters that JSON escapes
            async for stored in unhurried(objects.part()):
                raw = stored.raw_once()
                value = (orjson.loads(raw)["metadata"].get("labels") or {}).get(key) if mark in raw else None
                if value is not None:
                    by_value.setdefault(value, set()).add(_name(stored))
        finally:
            del self._missed[key]
        found = _of(by_value, values)
        for change in missed:
            _replace(by_value, key, change)
        self._keys[key] = by_value
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)
        return found

    def replace(self, past: Stored | None, now: Stored | None) -> None:
        """Note that an object came, changed or went."""
        one = now or past
        assert one is not None
        change = Change(_name(one), _labels(past) if past else {}, _labels(now) if now else {})
        for key, by_value in self._keys.items():
            _replace(by_value, key, change)
        for missed in self._missed.values():
            missed.append(change)


def _of(by_value: dict[str, set[Name]], values: frozenset[str] | None) -> set[Name]:
    return set().union(*(by_value if values is None else {v: by_value.get(v, ()) for v in values}).values())


def _replace(by_value: dict[str, set[Name]], key: str, change: Change) -> None:
    name, before, after = change
    was, is_now = before.get(key), after.get(key)
    if was == is_now:
        return
    if was is not None:
        names = by_value[was]
        names.discard(name)
        if not names:
            del by_value[was]
    if is_now is not None:
        by_value.setdefault(is_now, set()).add(name)


def _name(stored: Stored) -> Name:
    return stored.key.namespace, stored.key.name


def _labels(stored: Stored) -> dict[str, str]:
    return stored.body_once()["metadata"].get("labels") or {}
