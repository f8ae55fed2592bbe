"""Types from schemas: what a value of a schema is in CEL, how it is read from JSON, and how large it can be."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.values.cel.types import Type
from fleet.values.cel.values import NoValue, duration, equal, timestamp
from fleet.values.cel.words import RESERVED

REQUEST_BYTES = 3 << 20
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*", re.ASCII)
DEPTH_MAX = 60  # of a schema that CEL looks into
NODES_MAX = 20_000

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """`most`: items, entries or bytes at most. `least`: bytes of JSON at least. `names`: of the fields whose names CEL
    has to escape. `convert`: from JSON, where CEL has another value. `equal`: where a list's order does not matter."""

    most: int
    least: int
    names: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[Any], Any] | None = None
    equal: Callable[[Any, Any], bool] | None = None


def escaped(name: str) -> str:
    """A field's name in CEL; "" where it has none."""
    if name in _KEYWORDS:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name) if _NAME.fullmatch(name) else ""


class _TooMany(Exception):
    pass


def type_of_schema(schema: Schema, *, root: bool = False, name: str = "selfType") -> Type | None:
    """The type of a schema's values in CEL; None where CEL does not look at them, or cannot at all of them."""
    try:
        return _typed(schema, root, name, [NODES_MAX])
    except _TooMany:
        return None


def _typed(schema: Schema, root: bool, name: str, budget: list[int], depth: int = 0) -> Type | None:
    budget[0] -= 1
    if budget[0] < 0 or depth > DEPTH_MAX:
        raise _TooMany
    if schema.get("x-kubernetes-int-or-string"):
        longest = _bound(schema.get("maxLength"))
        return Type("dyn", "dyn", shape=Shape(REQUEST_BYTES - 2 if longest is None else 4 * longest, 1))
    if root:
        schema = _with_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name, budget, depth)
    if kind == "object":
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            return _map(schema, additional, name, budget, depth)
        return _object(schema, name, budget, depth)
    if kind == "string":
        return _string(schema)
    return {"boolean": _BOOL, "number": _DOUBLE, "integer": _INT}.get(str(kind))


_META = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}


def _with_meta(schema: Schema) -> Schema:
    own = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": _META}
    return {**schema, "properties": {**(schema.get("properties") or {}), **own}}


def _bound(given: Any) -> int | None:
    return max(0, given) if isinstance(given, int) else None


def _inner(schema: Any, name: str, budget: list[int], depth: int) -> Type | None:
    if not isinstance(schema, dict):
        return None
    return _typed(schema, bool(schema.get("x-kubernetes-embedded-resource")), name, budget, depth + 1)


def _list(schema: Schema, name: str, budget: list[int], depth: int) -> Type | None:
    item = _inner(schema.get("items"), f"{name}.@idx", budget, depth)
    if item is None:
        return None
    most = _bound(schema.get("maxItems"))
    if most is None:
        most = (REQUEST_BYTES - 2) // (least(item) + 1)
    convert = None if item.shape is None or item.shape.convert is None else _each(item.shape.convert)
    shape = Shape(most, 2, convert=convert, equal=_list_equality(schema))
    return Type("list", "list", (item,), None, shape)


def _map(schema: Schema, additional: Schema, name: str, budget: list[int], depth: int) -> Type | None:
    value = _inner(additional, f"{name}.@elem", budget, depth)
    if value is None:
        return None
    most = _bound(schema.get("maxProperties"))
    if most is None:
        most = (REQUEST_BYTES - 2) // (least(value) + 6)
    convert = None if value.shape is None or value.shape.convert is None else _each_value(value.shape.convert)
    return Type("map", "map", (_KEY, value), None, Shape(most, 2, convert=convert))


def _object(schema: Schema, name: str, budget: list[int], depth: int) -> Type:
    required = set(schema.get("required") or ())
    fields: dict[str, Type] = {}
    names: dict[str, str] = {}
    size = 2
    for key, inner in (schema.get("properties") or {}).items():
        type_ = _inner(inner, f"{name}.{key}", budget, depth)
        if type_ is None:
            continue
        known = escaped(key)
        if known:
            fields[known] = type_
            if known != key:
                names[known] = key
            if key in RESERVED:
                fields[key] = type_
        if key in required and inner.get("default") is None:
            size += len(key.encode()) + least(type_) + 4
    return Type("struct", name, (), fields, Shape(0, size, names))


def least(given: Type) -> int:
    return given.shape.least if given.shape is not None else 1


def _string(schema: Schema) -> Type:
    form, longest = schema.get("format"), _bound(schema.get("maxLength"))
    if form == "byte":
        return Type("bytes", "bytes", shape=Shape(REQUEST_BYTES - 2 if longest is None else longest, 2, convert=_bytes))
    if form == "duration":
        return Type("duration", "duration", shape=Shape(32, 3, convert=_duration))
    if form == "date":
        return Type("timestamp", "timestamp", shape=Shape(12, 12, convert=_date))
    if form == "date-time":
        return Type("timestamp", "timestamp", shape=Shape(32, 21, convert=_timestamp))
    if longest is not None:
        most = 4 * longest
    elif schema.get("enum"):
        most = max((len(one.encode()) for one in schema["enum"] if isinstance(one, str)), default=0)
    else:
        most = REQUEST_BYTES - 2
    return Type("string", "string", shape=Shape(most, 2))


# -- from JSON


def _each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [convert(item) for item in value] if type(value) is list else value


def _each_value(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {key: convert(item) for key, item in value.items()} if type(value) is dict else value


def _float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _timestamp(value: Any) -> Any:
    return _read(value, timestamp)


def _date(value: Any) -> Any:
    return _read(value, lambda text: timestamp(f"{text}T00:00:00Z"))


def _duration(value: Any) -> Any:
    return _read(value, duration)


def _bytes(value: Any) -> Any:
    return _read(value, lambda text: base64.b64decode(text, validate=True))


def _read(value: Any, reader: Callable[[str], Any]) -> Any:
    if type(value) is not str:
        return value
    try:
        return reader(value)
    except (ValueError, binascii.Error):
        raise NoValue(f"Invalid value: {value[:100]!r}") from None


def _list_equality(schema: Schema) -> Callable[[Any, Any], bool] | None:
    kind, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind == "set":
        return lambda one, other: _same_items(one, other, lambda item: item)
    if kind == "map" and keys:
        return lambda one, other: _same_items(one, other, lambda item: tuple(item.get(key) for key in keys))
    return None


def _same_items(value: Any, other: Any, key: Callable[[Any], Any]) -> bool:
    """The same items in any order, each found by its key."""
    if type(value) is not list or type(other) is not list:
        return equal(value, other)
    if len(value) != len(other):
        return False
    try:
        known = {key(item): item for item in other}
        return all(key(item) in known and equal(known[key(item)], item) for item in value)
    except (TypeError, AttributeError):  # a set of objects
        return all(any(equal(item, another) for another in other) for item in value)


# Kubernetes takes the key of a map, an object and a number for nothing to look through.
_KEY = Type("string", "string", shape=Shape(0, 2))
_BOOL = Type("bool", "bool", shape=Shape(0, 4))
_INT = Type("int", "int", shape=Shape(0, 1))
_DOUBLE = Type("double", "double", shape=Shape(0, 1, convert=_float))
