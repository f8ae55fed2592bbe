"""Frozen dataclasses as JSON, and back, by the types of their fields: a field that the core adds to a class is in the
notation without a line here.

A field at its default is left out. Amounts are integers in base units or quantities as text ("500m", "64Gi"); pairs
(labels, node selectors) are objects. A cause comes with its text, for readers. Decoding names every field that it does
not understand, unknown fields among it, and raises BadSnapshot.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

from fleet.core.decide import BadSnapshot
from fleet.core.model.amounts import Amounts
from fleet.core.model.cause import Cause
from fleet.values.quantity import BadQuantity, quantity

Json = dict[str, Any]
VERSION = 1  # of snapshots
PLAN_VERSION = 2  # of plans, and of records, which hold one: certificates have causes with codes
MOST_SECONDS = 1 << 53  # up to here floats count in whole steps
_NONE_OF_KIND: Mapping[type, str] = {
    str: "no text",
    int: "no whole number",
    float: "no number",
    bool: "neither true nor false",
}


def encode(value: Any) -> Any:
    """JSON of a value of the core: its fields, less those at their default."""
    if isinstance(value, Amounts):
        return dict(value.items_)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        if value and all(isinstance(i, tuple) and len(i) == 2 and isinstance(i[0], str) for i in value):
            keys = [pair[0] for pair in value]
            if len(set(keys)) == len(keys):
                return {key: encode(item) for key, item in value}
        return [encode(item) for item in value]
    return value


def _fields(value: Any) -> Json:
    document: Json = {}
    for field in dataclasses.fields(value):
        if field.init:
            item = getattr(value, field.name)
            if item != _default(field):
                document[field.name] = encode(item)
    return document | {"text": value.text} if isinstance(value, Cause) else document


_REQUIRED = object()


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _REQUIRED


@cache
def fields_of(cls: type) -> Mapping[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be given."""
    hints = typing.get_type_hints(cls)
    return {f.name: (hints[f.name], _default(f) is _REQUIRED) for f in dataclasses.fields(cls) if f.init}


def decode(cls: Any, data: object, where: str) -> Any:
    """An instance of the dataclass `cls`. `where`: how errors name its place."""
    data = without(data, "text") if cls is Cause else data
    if not isinstance(data, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    fields = fields_of(cls)
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise BadSnapshot([(f"{where}.{unknown[0]}", "is no field that this version knows")])
    missing = [name for name, (_, required) in fields.items() if required and name not in data]
    if missing:
        raise BadSnapshot([(f"{where}.{missing[0]}", "is missing")])
    return cls(**{name: decode_value(fields[name][0], item, f"{where}.{name}") for name, item in data.items()})


def decode_value(kind: Any, value: object, where: str) -> Any:
    """A value of a type as the core's dataclasses annotate it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, value, where)
    if kind is Amounts:
        return Amounts.of(amounts_of(value, where))
    if origin is not None and issubclass(origin, Mapping):
        if arguments[1] is int:
            return amounts_of(value, where)
        return {str(key): item for key, item in _decode_pairs(arguments[1], value, where)}
    if origin is frozenset:
        return frozenset(decode_value(arguments[0], item, where) for item in listed(value, where))
    if origin is tuple:
        return _decode_tuple(arguments, value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise BadSnapshot([(where, f"{value!r} is none of {', '.join(str(k.value) for k in kind)}")]) from None
    if dataclasses.is_dataclass(kind):
        return decode(kind, value, where)
    return _decode_scalar(kind, value, where)


def _decode_union(arguments: Sequence[Any], value: object, where: str) -> Any:
    """A value of one of several types, of which None may be one."""
    if value is None and type(None) in arguments:
        return None
    options = [option for option in arguments if option is not type(None)]
    if len(options) == 1:
        return decode_value(options[0], value, where)
    if isinstance(value, tuple(options)) and not isinstance(value, bool):
        return value
    raise BadSnapshot([(where, f"{value!r} is not of a type that belongs here")])


def _decode_pairs(kind: Any, value: object, where: str) -> Iterator[tuple[str, Any]]:
    """The items of an object, each of one type."""
    if not isinstance(value, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    for key, item in value.items():
        yield key, decode_value(kind, item, f"{where}[{key}]")


def _decode_tuple(arguments: Sequence[Any], value: object, where: str) -> tuple[Any, ...]:
    """A tuple of any length (pairs may be an object) or of one type for each item."""
    kinds: Sequence[Any]
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        pair = typing.get_args(arguments[0]) if typing.get_origin(arguments[0]) is tuple else ()
        if isinstance(value, Mapping) and pair and pair[0] is str:
            return tuple(_decode_pairs(pair[1], value, where))
        items = listed(value, where)
        kinds = [arguments[0]] * len(items)
    else:
        items, kinds = listed(value, where), arguments
        if len(items) != len(kinds):
            raise BadSnapshot([(where, f"needs {len(kinds)} items")])
    each = enumerate(zip(kinds, items, strict=True))
    return tuple(decode_value(kind, item, f"{where}[{index}]") for index, (kind, item) in each)


def _decode_scalar(kind: type, value: object, where: str) -> Any:
    """Text, a truth value or a number. An integer is a float, too."""
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) <= MOST_SECONDS:
            raise BadSnapshot([(where, f"is not between -{MOST_SECONDS} and {MOST_SECONDS}")])
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadSnapshot([(where, f"{value!r} is {_NONE_OF_KIND.get(kind, f'no {kind.__name__}')}")])
    return value


def amounts_of(value: object, where: str) -> dict[str, int]:
    """Integers are base units, text is a quantity."""
    if not isinstance(value, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    amounts: dict[str, int] = {}
    for name, amount in value.items():
        if isinstance(amount, str):
            try:
                amounts[name] = quantity(amount, name)
                if "/" in name and quantity(amount, "cpu") % 1000:  # thousandths of it
                    raise BadQuantity("is counted in whole ones, as every device is")
            except BadQuantity as error:
                raise BadSnapshot([(f"{where}[{name}]", str(error))]) from None
        elif isinstance(amount, int) and not isinstance(amount, bool):
            amounts[name] = amount
        else:
            raise BadSnapshot([(f"{where}[{name}]", f"{amount!r} is neither an integer nor a quantity")])
    return amounts


def without(document: object, name: str) -> object:
    """The document without a text that stands there for readers alone, and is made anew."""
    return {key: item for key, item in document.items() if key != name} if isinstance(document, Mapping) else document


def readable(document: object, where: str = "") -> None:
    """Refuse a document with a text that no UTF-8 can hold: JSON can write half a character (a lone surrogate), which
    cannot be printed, stored or sent. Goes through all of it, however deep."""
    pending: list[tuple[str, object]] = [(where, document)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, str):
            _whole(value, place)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                if isinstance(key, str):
                    _whole(key, place)
                pending.append((f"{place}.{key}" if place else str(key), item))
        elif isinstance(value, (list, tuple)):
            pending.extend((f"{place}[{index}]", item) for index, item in enumerate(value))


def _whole(text: str, where: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadSnapshot([(where or "document", "holds a lone surrogate, which is no character")])


def listed(value: object, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise BadSnapshot([(where, "is not a list")])
    return list(value)
