"""Protobuf bodies to what their JSON would be: typed clients have sent protobuf by default since Kubernetes 1.32.

A body is four magic bytes and a runtime.Unknown that names apiVersion and kind around the object. The wire does not say
which zero values a Go client meant: a nil pointer is absent, any other field is always written. So the tables carry
that: a zero is dropped unless the JSON form would have kept it. Fields that the tables do not have are passed over.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import orjson

from api.protobuf.tables import NUMBERS, Field, kind_message, message
from fleet.engine.bounds import too_deep
from fleet.engine.status import bad_request
from fleet.model.times import rfc3339

MAGIC = b"k8s\x00"
MAX_DEPTH = 48  # messages inside each other; only the schemas of CRDs have no end of their own
_DROPPED: tuple[Any, ...] = (None, "", 0, False, {})


class _Malformed(Exception):
    pass


def decode(data: bytes) -> dict[str, Any]:
    """The object in a request body, as its JSON form. StatusError 400 for bytes that are not one of the known kinds."""
    try:
        return _envelope(data, 0)
    except (_Malformed, UnicodeDecodeError, struct.error, OverflowError, ValueError, OSError) as error:
        raise bad_request(f"couldn't parse the body as protobuf: {error}") from None


def decode_message(data: bytes, name: str) -> Any:
    """A message by name, as JSON has it. ValueError for bytes that are no such message."""
    try:
        return _message(data, name, 0)
    except (_Malformed, struct.error, OverflowError, OSError) as error:
        raise ValueError(str(error)) from None


def _envelope(data: bytes, depth: int) -> dict[str, Any]:
    if data[:4] != MAGIC:
        raise _Malformed("it does not begin with the magic bytes")
    api_version = kind = ""
    raw = b""
    for number, _, value in walk(data[4:]):
        if number == 1:
            for inner, _, text in walk(_bytes(value)):
                if inner == 1:
                    api_version = _bytes(text).decode()
                elif inner == 2:
                    kind = _bytes(text).decode()
        elif number == 2:
            raw = _bytes(value)
    name = kind_message(api_version, kind)
    if name is None:
        raise bad_request(f"the protobuf form of {kind[:60]} in {api_version[:60]} is not known here; send JSON")
    return {"kind": kind, "apiVersion": api_version, **_message(raw, name, depth)}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _Malformed("it ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def walk(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(field number, wire type, value) of each field; a value is an integer, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, wire, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _Malformed(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(data):
            raise _Malformed("a field is longer than the message")
        yield tag >> 3, wire, data[at : at + size]
        at += size


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@cache
def _fields(name: str) -> dict[int, Field]:
    return {field.number: field for field in message(name).fields}


def _message(data: bytes, name: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _Malformed("it is nested too deeply")
    table = _fields(name)
    out: dict[str, Any] = {}
    for number, wire, value in walk(data):
        field = table.get(number)
        if field is None:
            continue
        if field.map:
            key, entry = _entry(_bytes(value), field.type, depth)
            out.setdefault(field.name, {})[key] = entry
        elif field.repeated:
            values = out.setdefault(field.name, [])
            if wire == 2 and field.type in NUMBERS:  # packed
                values.extend(_packed(_bytes(value), field.type))
            else:
                values.append(_value(value, field.type, depth))
        else:
            found = _value(value, field.type, depth)
            if field.inline:
                out.update(found)
            elif found not in _DROPPED or (field.kept and found is not None):
                out[field.name] = found
    found_message = message(name)
    if found_message.wrapped:
        return out.get("items", [])
    return _chosen(out) if found_message.choice else out


def _chosen(fields: dict[str, Any]) -> Any:
    """A JSONSchemaPropsOr…: a schema, a list, or a boolean."""
    for field in ("schema", "jSONSchemas", "property"):
        if field in fields:
            return fields[field]
    return fields.get("allows", False)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Malformed("a number stands where a message should")
    return value


def _packed(data: bytes, kind: str) -> list[int | bool]:
    at, values = 0, []
    while at < len(data):
        value, at = _varint(data, at)
        values.append(_number(value, kind))
    return values


def _number(value: int, kind: str) -> int | bool:
    if kind == "bool":
        return bool(value)
    if kind == "int64":
        return _signed(value)
    value &= 0xFFFFFFFF  # Go keeps the low half, too
    return value - (1 << 32) if value >= 1 << 31 else value


def _entry(data: bytes, kind: str, depth: int) -> tuple[str, Any]:
    key, found = "", None
    for number, _, part in walk(data):
        if number == 1:
            key = _bytes(part).decode()
        elif number == 2:
            found = _value(part, kind, depth)
    if found is None:
        found = _value(0 if kind in NUMBERS else b"", kind, depth)
    return key, found


def _value(value: int | bytes, kind: str, depth: int) -> Any:
    if kind in NUMBERS:
        if not isinstance(value, int):
            raise _Malformed("a message stands where a number should")
        return _number(value, kind)
    data = _bytes(value)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(data)
    return _raw(data, depth) if kind == "raw" else _message(data, kind, depth + 1)


def _numbers(data: bytes) -> dict[int, int | bytes]:
    return {number: value for number, _, value in walk(data)}


def _integer(parts: dict[int, int | bytes], number: int) -> int:
    value = parts.get(number, 0)
    return _signed(value) if isinstance(value, int) else 0


def _time(data: bytes) -> str | None:
    if not data:
        return None
    parts = _numbers(data)
    return rfc3339(_integer(parts, 1) + _integer(parts, 2) // 1_000_000_000)


def _microtime(data: bytes) -> str | None:
    if not data:
        return None
    parts = _numbers(data)
    more, nanos = divmod(_integer(parts, 2), 1_000_000_000)
    return rfc3339(_integer(parts, 1) + more).removesuffix("Z") + f".{nanos // 1000:06d}Z"


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _quantity(data: bytes) -> str:
    return _text(_numbers(data).get(1, b"")) or "0"


def _intstr(data: bytes) -> int | str:
    parts = _numbers(data)
    if _integer(parts, 1) == 1:
        return _text(parts.get(3, b""))
    return int(_number(_integer(parts, 2), "int32"))


def _raw(data: bytes, depth: int) -> Any:
    value = _bytes(_numbers(data).get(1, b""))
    if not value:
        return None
    if value[:4] == MAGIC:  # an object inside another, as in a List
        if depth >= MAX_DEPTH:
            raise _Malformed("it is nested too deeply")
        return _envelope(value, depth + 1)
    if too_deep(value):
        raise _Malformed("the JSON in it is nested too deeply")
    return orjson.loads(value)


def _double(data: bytes) -> float | int:
    found = float(struct.unpack("<d" if len(data) == 8 else "<f", data)[0])
    if found != found or found in (float("inf"), float("-inf")):
        raise _Malformed("a number is not finite")
    return int(found) if found.is_integer() and abs(found) < 1 << 53 else found


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "string": bytes.decode, "bytes": lambda data: b64encode(data).decode(), "double": _double, "time": _time,
    "microtime": _microtime, "quantity": _quantity, "intstr": _intstr,
}  # fmt: skip
