"""The objects of one resource by their labels, in the order of their names, for lists that ask for one.

A label is indexed from the first list that asks for its key. Writes cost nothing before. An index is made in slices;
what changes meanwhile is put into it at the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import orjson

from api.slices import unhurried
from api.store.orderedobjects import Name, OrderedObjects
from fleet.values.ports import StoredObject

MAX_KEYS = 8  # of one resource; a list that asks for another key drops the key that was asked for longest ago
MAX_VALUES = 64  # that a list puts together; a list of more looks at all objects

ByValue = dict[str, StoredObject | OrderedObjects]  # the only object with this value of a label, or all of them


class Change(NamedTuple):
    """The labels of an object before and after, none where it was not there, and what it is now."""

    name: Name
    before: Mapping[str, str]
    after: Mapping[str, str]
    now: StoredObject | None


class LabelIndex:
    """Objects by label, for the keys that lists have asked for."""

    __slots__ = ("_keys", "_missed")

    def __init__(self) -> None:
        self._keys: OrderedDict[str, ByValue] = OrderedDict()
        self._missed: dict[str, list[Change]] = {}  # by keys whose index is being made

    def __bool__(self) -> bool:
        return bool(self._keys or self._missed)

    def find(self, key: str, values: frozenset[str] | None) -> list[OrderedObjects] | None:
        """The objects whose label `key` has one of the values (None: any), those of each value by themselves. Later
        changes do not change them. None where there is no index, and for more values than are worth putting together.
        """
        by_value = self._keys.get(key)
        if by_value is None:
            return None
        self._keys.move_to_end(key)
        return _of(by_value, values)

    async def make(
        self, key: str, values: frozenset[str] | None, objects: OrderedObjects
    ) -> list[OrderedObjects] | None:
        """Index a key, and find as above among `objects`: all there are as this is called, which do not change
        meanwhile. None also where there is the index, or somebody else is about to make it."""
        if key in self._keys or key in self._missed:
            return None
        missed = self._missed[key] = []
        try:
            by_value: ByValue = {}
            mark = f'"{key}":'.encode()  # keys and values of labels have no characters that JSON escapes
            async for name, stored in unhurried(objects.part().named_items()):
                raw = stored.raw_once()
                value = (orjson.loads(raw)["metadata"].get("labels") or {}).get(key) if mark in raw else None
                if value is not None:
                    _put(by_value, value, name, stored)
        finally:
            del self._missed[key]
        matches = _of(by_value, values)
        for change in missed:
            _replace(by_value, key, change)
        self._keys[key] = by_value
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)
        return matches

    def replace(self, past: StoredObject | None, now: StoredObject | None) -> None:
        """Note that an object came, changed or went."""
        one = now or past
        assert one is not None
        change = Change(name_of(one), _labels(past) if past else {}, _labels(now) if now else {}, now)
        for key, by_value in self._keys.items():
            _replace(by_value, key, change)
        for missed in self._missed.values():
            missed.append(change)


def name_of(stored: StoredObject) -> Name:
    return stored.key.namespace, stored.key.name


def _of(by_value: ByValue, values: frozenset[str] | None) -> list[OrderedObjects] | None:
    wanted: Collection[str] = by_value if values is None else values
    if len(wanted) > MAX_VALUES:
        return None
    found = [by_value[value] for value in wanted if value in by_value]
    return [one.copy() if isinstance(one, OrderedObjects) else OrderedObjects([name_of(one)], [one]) for one in found]


def _replace(by_value: ByValue, key: str, change: Change) -> None:
    was, is_now = change.before.get(key), change.after.get(key)
    if was is not None and was != is_now:
        have = by_value[was]
        if isinstance(have, OrderedObjects) and len(have) > 1:
            have.remove(change.name)
        else:
            del by_value[was]
    if is_now is not None and change.now is not None:
        _put(by_value, is_now, change.name, change.now)


def _put(by_value: ByValue, value: str, name: Name, stored: StoredObject) -> None:
    have = by_value.get(value)
    if have is None or (isinstance(have, StoredObject) and have.key == stored.key):
        by_value[value] = stored
        return
    if isinstance(have, StoredObject):
        have = by_value[value] = OrderedObjects([name_of(have)], [have])
    have.put(name, stored)


def _labels(stored: StoredObject) -> dict[str, str]:
    return stored.body_once()["metadata"].get("labels") or {}
