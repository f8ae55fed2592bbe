"""CEL's functions over lists, sets, maps and optional values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from fleet.values.cel.arithmetic import add
from fleet.values.cel.messages import Message
from fleet.values.cel.values import (
    NO_OVERLOAD,
    NONE,
    NUMBERS,
    Duration,
    Evaluation,
    NoValue,
    Optional,
    compare,
    equal,
    type_name,
)

_LIST = 10  # of a list that a function makes, on top of its items
_NO_VALUE = "optional.none() dereference"


def _traversed(run: Evaluation, value: Any) -> None:
    """What Kubernetes counts for looking at each part once."""
    if type(value) in (str, bytes):
        run.spend(len(value) // 10)
    elif type(value) is list:
        run.spend(len(value))
        for item in value:
            if type(item) in (str, bytes, list, dict):
                _traversed(run, item)
    elif type(value) is dict:
        run.spend(len(value))
        for item in value.values():
            _traversed(run, item)


def is_sorted(run: Evaluation, items: Any) -> bool:
    _traversed(run, items)
    return all((compare(items[at], items[at + 1]) or 0) <= 0 for at in range(len(items) - 1))


def total(run: Evaluation, items: Any) -> Any:
    _traversed(run, items)
    if not items:
        return 0
    result = items[0]
    if type(result) not in NUMBERS and type(result) is not Duration:
        raise NoValue(NO_OVERLOAD)
    for item in items[1:]:
        result = add(run, result, item)
    return result


def _best(name: str, sign: int) -> Callable[[Evaluation, Any], Any]:
    def choose(run: Evaluation, items: Any) -> Any:
        _traversed(run, items)
        if not items:
            raise NoValue(f"{name} called on empty list")
        result = items[0]
        for item in items[1:]:
            if (compare(item, result) or 0) * sign > 0:
                result = item
        return result

    return choose


def position(run: Evaluation, items: list[Any], wanted: Any) -> int:
    _traversed(run, items)
    return next((at for at, item in enumerate(items) if equal(item, wanted)), -1)


def last_position(run: Evaluation, items: list[Any], wanted: Any) -> int:
    _traversed(run, items)
    return next((at for at in range(len(items) - 1, -1, -1) if equal(items[at], wanted)), -1)


def cut(run: Evaluation, items: Any, start: Any, end: Any) -> list[Any]:
    if start < 0 or end < 0:
        raise NoValue(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise NoValue(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise NoValue(f"cannot slice({start}, {end}), list is length {len(items)}")
    run.spend(_LIST + end - start)
    return list(items[start:end])


def flatten(run: Evaluation, items: Any, depth: Any = 1) -> list[Any]:
    if depth < 0:
        raise NoValue("level must be non-negative")
    run.spend(_LIST + len(items))
    result: list[Any] = []
    for item in items:
        if type(item) is list and depth > 0:
            result += flatten(run, item, depth - 1)
        else:
            result.append(item)
    return result


def numbers(run: Evaluation, count: Any) -> list[int]:
    run.spend(_LIST + max(0, count))
    return list(range(count))


def reverse(run: Evaluation, items: Any) -> Any:
    run.spend(_LIST + len(items))
    return items[::-1]


def _pairs(run: Evaluation, items: Any) -> None:
    """Each item against each other, as Kubernetes counts."""
    run.spend(_LIST + 2 * len(items) * len(items))


def distinct(run: Evaluation, items: Any) -> list[Any]:
    _pairs(run, items)
    made: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in made):
            made.append(item)
    return made


def in_order(run: Evaluation, items: Any, keys: Any = None) -> list[Any]:
    keys = items if keys is None else keys
    _pairs(run, keys)
    if len({type_name(key) for key in keys}) > 1:
        raise NoValue("list elements must have the same type")
    order = cmp_to_key(lambda one, other: compare(one, other) or 0)
    return [items[at] for at in sorted(range(len(items)), key=lambda at: order(keys[at]))]


def _each_in_each(run: Evaluation, one: Any, other: Any, factor: int) -> None:
    run.spend(1 + factor * len(one) * len(other))


def contains_all(run: Evaluation, items: Any, wanted: Any) -> bool:
    _each_in_each(run, items, wanted, 1)
    return all(any(equal(item, one) for item in items) for one in wanted)


def equivalent(run: Evaluation, one: Any, other: Any) -> bool:
    _each_in_each(run, one, other, 2)
    return all(any(equal(a, b) for b in other) for a in one) and all(any(equal(a, b) for a in one) for b in other)


def intersects(run: Evaluation, one: Any, other: Any) -> bool:
    _each_in_each(run, one, other, 1)
    return any(equal(a, b) for a in one for b in other)


def insert(run: Evaluation, given: dict[Any, Any], key: Any, value: Any) -> None:
    """Into the map that a loop makes."""
    if key in given:
        raise NoValue(f"insert failed: key {key} already exists")
    given[key] = value


# -- optional values


def optional_of(run: Evaluation, value: Any) -> Optional:
    return Optional((value,))


def optional_not_zero(run: Evaluation, value: Any) -> Optional:
    empty = not value.fields if isinstance(value, Message) else value is None or value in (0, "", b"", [], {})
    return NONE if empty or value == Duration(0) else Optional((value,))


def optional_none(run: Evaluation) -> Optional:
    return NONE


def _is_optional(value: Any) -> Optional:
    if type(value) is Optional:
        return value
    raise NoValue(NO_OVERLOAD)


def value_of(run: Evaluation, value: Any) -> Any:
    if not _is_optional(value).content:
        raise NoValue(_NO_VALUE)
    return value.content[0]


def has_value(run: Evaluation, value: Any) -> bool:
    return bool(_is_optional(value).content)


def first(run: Evaluation, items: Any) -> Optional:
    return Optional((items[0],)) if items else NONE


def last(run: Evaluation, items: Any) -> Optional:
    return Optional((items[-1],)) if items else NONE


def unwrap(run: Evaluation, items: Any) -> list[Any]:
    run.spend(len(items))
    return [item.content[0] for item in items if _is_optional(item).content]


SEQUENCES: dict[str, tuple[Callable[..., Any], int]] = {
    "isSorted": (is_sorted, 0),
    "sum": (total, 0),
    "min": (_best("min", -1), 0),
    "max": (_best("max", 1), 0),
    "slice": (cut, 1),
    "flatten": (flatten, 1),
    "lists.range": (numbers, 1),
    "reverse": (reverse, 1),
    "distinct": (distinct, 1),
    "sort": (in_order, 1),
    "@sortByAssociatedKeys": (in_order, 1),
    "sets.contains": (contains_all, 0),
    "sets.equivalent": (equivalent, 0),
    "sets.intersects": (intersects, 0),
    "optional.of": (optional_of, 1),
    "optional.ofNonZeroValue": (optional_not_zero, 1),
    "optional.none": (optional_none, 1),
    "optional.unwrap": (unwrap, 1),
    "unwrapOpt": (unwrap, 1),
    "value": (value_of, 1),
    "hasValue": (has_value, 1),
    "first": (first, 1),
    "last": (last, 1),
}
