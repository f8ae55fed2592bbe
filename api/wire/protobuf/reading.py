"""Protobuf bodies to what their JSON would be: typed clients have sent protobuf by default since Kubernetes 1.32.

A body is four magic bytes and a runtime.Unknown that names apiVersion and kind around the object. The wire does not say
which zero values a Go client meant: a nil pointer is absent, any other field is always written. So the tables carry
that: a zero is dropped unless the JSON form would have kept it. Fields that the tables do not have are passed over.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import orjson

from api.engine.bounds import CONTAINERS_MAX, encoded, refuse_shape, too_deep
from api.engine.status import bad_request
from api.wire.protobuf.tables import NUMBERS, SCALARS, SPECIAL, Field, kind_message, message
from fleet.values.times import instant

MAGIC = b"k8s\x00"
MAX_DEPTH = 48  # messages inside each other; only the schemas of CRDs have no end of their own
_DROPPED: tuple[Any, ...] = (None, "", 0, False, {})


class _DecodeError(Exception):
    pass


def decode(data: bytes) -> dict[str, Any]:
    """The object in a request body, as its JSON form. StatusError 400 for bytes that are no known kind, and
    those of JSON that is as large."""
    try:
        found = _envelope(data, 0)
    except (_DecodeError, UnicodeDecodeError, struct.error, OverflowError, ValueError, OSError, IndexError) as error:
        raise bad_request(f"couldn't parse the body as protobuf: {error}") from None
    if len(data) > 2 * CONTAINERS_MAX:  # an empty message takes two bytes
        refuse_shape(encoded(found))
    return found


def decode_message(data: bytes, name: str) -> Any:
    """A message by name, as JSON has it. ValueError for bytes that are no such message."""
    try:
        return _reader(name)(data, 0, len(data), 0)
    except (_DecodeError, struct.error, OverflowError, OSError, IndexError) as error:
        raise ValueError(str(error)) from None


def _envelope(data: bytes, depth: int) -> dict[str, Any]:
    if data[:4] != MAGIC:
        raise _DecodeError("it does not begin with the magic bytes")
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
    return {"kind": kind, "apiVersion": api_version, **_reader(name)(raw, 0, len(raw), depth)}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _DecodeError("it ends in the middle of a number")
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
            raise _DecodeError(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(data):
            raise _DecodeError("a field is longer than the message")
        yield tag >> 3, wire, data[at : at + size]
        at += size


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_Numbers = dict[int, tuple[str, str, bool, bool]]  # by number: name, type, whether a zero is kept, repeated
Reader = Callable[[bytes, int, int, int], Any]
_Blocks = dict[int, tuple[int, str, Any, bool]]  # by number: how, name, what reads it, whether a zero is kept
# How a field is read; the first two are nearly all of them, and stand in the loop itself.
_TEXT, _OBJECT, _VALUE, _INLINE, _ITEM, _ENTRY, _PACKED = range(7)
_READERS: dict[str, Reader] = {}


def _reader(name: str) -> Reader:
    """The function that reads a message: (all bytes, its begin, its end, its depth) to its JSON."""
    known = _READERS.get(name)
    return known if known is not None else _compile(name)


def _compile(name: str) -> Reader:
    layout = message(name)
    blocks: _Blocks = {}
    numbers: _Numbers = {}
    reader = _loop(blocks, numbers)
    if layout.wrapped:
        reader = _wrapped(reader)
    elif layout.choice:
        reader = _chooser(reader)
    _READERS[name] = reader  # before its fields: a message may contain itself
    for field in layout.fields:
        if field.type in NUMBERS and not field.map:
            numbers[field.number] = (field.name, field.type, field.keeps_zero, field.repeated)
            if field.repeated:
                blocks[field.number] = (_PACKED, field.name, field.type, False)
        else:
            blocks[field.number] = _block(field)
    return reader


def _loop(blocks: _Blocks, numbers: _Numbers) -> Reader:
    """The reader of the fields of a message. Nearly all numbers have one byte, and such numbers are read in place."""

    def read(data: bytes, at: int, end: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _DecodeError("it is nested too deeply")
        out: dict[str, Any] = {}
        while at < end:
            tag = data[at]
            at += 1
            if tag > 0x7F:
                tag, at = _varint(data, at - 1)
            wire = tag & 7
            if wire == 2:
                size = data[at]
                at += 1
                if size > 0x7F:
                    size, at = _varint(data, at - 1)
                stop = at + size
                if stop > end:
                    raise _DecodeError("a field is longer than the message")
                field = blocks.get(tag >> 3)
                if field is not None:
                    how, key, inner, keeps_zero = field
                    if how == _TEXT:
                        if size or keeps_zero:
                            out[key] = data[at:stop].decode()
                    elif how == _OBJECT:
                        value = inner(data, at, stop, depth + 1)
                        if value or keeps_zero or value not in _DROPPED:
                            out[key] = value
                    else:
                        _other(out, field, data, at, stop, depth)
                elif tag >> 3 in numbers:
                    raise _DecodeError("a message stands where a number should")
                at = stop
            elif wire == 0:
                number = data[at]
                at += 1
                if number > 0x7F:
                    number, at = _varint(data, at - 1)
                known = numbers.get(tag >> 3)
                if known is not None:
                    _put_number(out, known, number)
                elif tag >> 3 in blocks:
                    raise _DecodeError("a number stands where a message should")
            else:
                at = _fixed(out, blocks, data, at, end, tag)
        if at > end:
            raise _DecodeError("it ends in the middle of a number")
        return out

    return read


def _put_number(out: dict[str, Any], field: tuple[str, str, bool, bool], number: int) -> None:
    key, kind, kept, repeated = field
    if repeated:
        out.setdefault(key, []).append(_number(number, kind))
    elif number or kept:
        out[key] = _number(number, kind)


def _block(field: Field) -> tuple[int, str, Any, bool]:
    if field.map:
        return _ENTRY, field.name, _one(field.type), False
    if field.type == "string" and not field.repeated:
        return _TEXT, field.name, None, field.keeps_zero
    special = field.type in SPECIAL or field.type in SCALARS
    how = _ITEM if field.repeated else _INLINE if field.inline else _VALUE if special else _OBJECT
    return how, field.name, _one(field.type), field.keeps_zero


def _one(kind: str) -> Reader:
    special = _SPECIAL.get(kind)
    if special is None:
        return _raw if kind == "raw" else _reader(kind)

    def read(data: bytes, at: int, end: int, depth: int) -> Any:
        return special(data[at:end])

    return read


def _other(out: dict[str, Any], field: tuple[int, str, Any, bool], data: bytes, at: int, end: int, depth: int) -> None:
    how, key, inner, keeps_zero = field
    if how == _ITEM:
        out.setdefault(key, []).append(inner(data, at, end, depth + 1))
    elif how == _ENTRY:
        name, value = _entry(data, at, end, inner, depth)
        out.setdefault(key, {})[name] = value
    elif how == _PACKED:
        out.setdefault(key, []).extend(_packed(data[at:end], inner))
    elif how == _INLINE:
        out.update(inner(data, at, end, depth + 1))
    else:
        value = inner(data, at, end, depth)
        if value not in _DROPPED or (keeps_zero and value is not None):
            out[key] = value


def _fixed(out: dict[str, Any], blocks: _Blocks, data: bytes, at: int, end: int, tag: int) -> int:
    """A field of 4 or 8 bytes; the place behind it."""
    if tag & 7 not in (1, 5):
        raise _DecodeError(f"wire type {tag & 7} is not used by Kubernetes")
    stop = at + (8 if tag & 7 == 1 else 4)
    if stop > end:
        raise _DecodeError("a field is longer than the message")
    field = blocks.get(tag >> 3)
    if field is not None and field[0] == _VALUE:
        _other(out, field, data, at, stop, 0)
    return stop


def _wrapped(read: Reader) -> Reader:
    """A list by another name."""

    def items(data: bytes, at: int, end: int, depth: int) -> Any:
        return read(data, at, end, depth).get("items", [])

    return items


def _chooser(read: Reader) -> Reader:
    """A JSONSchemaPropsOr…: a schema, a list, or a boolean."""

    def chosen(data: bytes, at: int, end: int, depth: int) -> Any:
        fields = read(data, at, end, depth)
        for field in ("schema", "jSONSchemas", "property"):
            if field in fields:
                return fields[field]
        return fields.get("allows", False)

    return chosen


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


def _entry(data: bytes, at: int, end: int, inner: Reader, depth: int) -> tuple[str, Any]:
    """An entry of a map: the key is its field 1, the value its field 2."""
    if at + 1 < end and data[at] == 0x0A and data[at + 1] < 0x80:  # as every known writer has it
        begin = at + 2 + data[at + 1]
        if begin + 1 < end and data[begin] == 0x12:
            size, first = _varint(data, begin + 1)
            if first + size == end:
                return data[at + 2 : begin].decode(), inner(data, first, end, depth + 1)
    key, value = "", b""
    for number, _, part in walk(data[at:end]):
        if number == 1:
            key = _bytes(part).decode()
        elif number == 2:
            value = _bytes(part)
    return key, inner(value, 0, len(value), depth + 1)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _DecodeError("a number stands where a message should")
    return value


def _numbers(data: bytes) -> dict[int, int | bytes]:
    return {number: value for number, _, value in walk(data)}


def _integer(parts: dict[int, int | bytes], number: int) -> int:
    value = parts.get(number, 0)
    return _signed(value) if isinstance(value, int) else 0


@lru_cache(maxsize=1024)  # an object says the same second several times
def _time(data: bytes) -> str | None:
    if not data:
        return None
    parts = _numbers(data)
    return instant(_integer(parts, 1) + _integer(parts, 2) // 1_000_000_000)  # validation names the field of a number


def _microtime(data: bytes) -> str | None:
    if not data:
        return None
    parts = _numbers(data)
    more, nanos = divmod(_integer(parts, 2), 1_000_000_000)
    return instant(_integer(parts, 1) + more).removesuffix("Z") + f".{nanos // 1000:06d}Z"


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _quantity(data: bytes) -> str:
    return _text(_numbers(data).get(1, b"")) or "0"


def _intstr(data: bytes) -> int | str:
    parts = _numbers(data)
    if _integer(parts, 1) == 1:
        return _text(parts.get(3, b""))
    return int(_number(_integer(parts, 2), "int32"))


def _raw(data: bytes, at: int, end: int, depth: int) -> Any:
    value = _bytes(_numbers(data[at:end]).get(1, b""))
    if not value:
        return None
    if value[:4] == MAGIC:  # an object inside another, as in a List
        if depth >= MAX_DEPTH:
            raise _DecodeError("it is nested too deeply")
        return _envelope(value, depth + 1)
    if too_deep(value):
        raise _DecodeError("the JSON in it is nested too deeply")
    return orjson.loads(value)


def _double(data: bytes) -> float | int:
    found = float(struct.unpack("<d" if len(data) == 8 else "<f", data)[0])
    if found != found or found in (float("inf"), float("-inf")):
        raise _DecodeError("a number is not finite")
    return int(found) if found.is_integer() and abs(found) < 1 << 53 else found


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "string": bytes.decode,
    "bytes": lambda data: b64encode(data).decode(),
    "double": _double,
    "time": _time,
    "microtime": _microtime,
    "quantity": _quantity,
    "intstr": _intstr,
}
