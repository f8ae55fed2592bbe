"""What a check keeps of one store between its calls. A hub has one store; a process of tests has many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from fleet.values.ports import Store

_T = TypeVar("_T")


def once_per_store(make: Callable[[Store], _T]) -> Callable[[Store], _T]:
    """`make`, called once for each store: later calls return the same value."""
    values: WeakKeyDictionary[Store, _T] = WeakKeyDictionary()

    def of(store: Store) -> _T:
        value = values.get(store)
        if value is None:
            value = values[store] = make(store)
        return value

    return of
