"""JSON objects to protobuf: one function per message, made from the tables when the message is first needed.

A function takes the value of a field and returns the bytes of the whole field, tag included. A field that the JSON does
not have is not written, and a reader takes it for zero, as Go does. The JSON comes from the store, so its types are the
schema's. An object with another type in it has no protobuf form.
"""

from __future__ import annotations

import struct
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from api.wire.protobuf.tables import NUMBERS, Field, kind_message, message
from fleet.values.times import moment

Encoder = Callable[[Any], bytes]

_MASK = 0xFFFFFFFFFFFFFFFF


def _long_varint(value: int) -> bytes:
    value &= _MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_KEPT = 4096
_VARINTS = tuple(_long_varint(value) for value in range(_KEPT))  # most lengths


def varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < _KEPT else _long_varint(value)


def block(tag: bytes, data: bytes) -> bytes:
    """A field of bytes."""
    return tag + varint(len(data)) + data


def tag_of(number: int, wire: int = 2) -> bytes:
    return varint(number << 3 | wire)


class UnwritableValue(ValueError):
    """A value does not have the type that its field has in protobuf."""


def encode_message(name: str, body: Any) -> bytes:
    """A message without its envelope. UnwritableValue when the JSON is of another shape."""
    try:
        return encoder(name)(body)
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error, Base64Error) as error:
        raise UnwritableValue(f"{name}: {error}"[:200]) from None


def encode_kind(body: Mapping[str, Any]) -> bytes:
    """An object with apiVersion and kind, without its envelope. UnwritableValue also for a kind without protobuf."""
    api_version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    name = kind_message(api_version, kind)
    if name is None:
        raise UnwritableValue(f"{kind} in {api_version} is not known"[:200])
    return encode_message(name, body)


# -- the functions of messages

_ENCODERS: dict[str, Encoder] = {}


def encoder(name: str) -> Encoder:
    """The function that writes a message's content."""
    known = _ENCODERS.get(name)
    return known if known is not None else _compile(name)


def _compile(name: str) -> Encoder:
    layout = message(name)
    fields: dict[str, Encoder] = {}
    inlined: list[tuple[bytes, frozenset[str], Encoder]] = []

    def plain(body: Any) -> bytes:
        return b"".join([fields[k](v) for k, v in body.items() if v is not None and k in fields])

    def with_inlined(body: Any) -> bytes:
        parts = [plain(body)]
        for tag, keys, inner in inlined:
            own = {key: body[key] for key in keys if key in body}
            if own:
                parts.append(block(tag, inner(own)))
        return b"".join(parts)

    encode: Encoder = with_inlined if any(field.inline for field in layout.fields) else plain
    if layout.wrapped:
        encode = _wrapped
    elif layout.choice:
        encode = _chooser(fields)
    _ENCODERS[name] = encode  # before its fields: a message may contain itself
    for field in layout.fields:
        if field.inline:
            inlined.append((tag_of(field.number), _keys(field.type), encoder(field.type)))
        else:
            fields[field.name] = _field(field)
    return encode


def _keys(name: str) -> frozenset[str]:
    """The fields of a message in JSON, with those of the messages inlined into it."""
    keys: frozenset[str] = frozenset()
    for field in message(name).fields:
        keys |= _keys(field.type) if field.inline else {field.name}
    return keys


def _chooser(fields: dict[str, Encoder]) -> Encoder:
    """A JSONSchemaPropsOr…: JSON has the schema, the list or the boolean itself."""

    def encode(value: Any) -> bytes:
        if value.__class__ is bool:
            return fields["allows"](value)
        if isinstance(value, dict):
            allows = fields["allows"](True) if "allows" in fields else b""
            return allows + fields["schema"](value)
        return fields["jSONSchemas" if "jSONSchemas" in fields else "property"](value)

    return encode


_ITEM = tag_of(1)


def _wrapped(values: Any) -> bytes:
    return b"".join([block(_ITEM, value.encode()) for value in values])


# -- the functions of fields


def _field(field: Field) -> Encoder:
    number = field.number
    if field.map:
        return _map(tag_of(number), field_writer(2, field.type))
    write = field_writer(number, field.type)
    if not field.repeated:
        return write

    zero = tag_of(number, 0) + b"\x00" if field.type in NUMBERS else tag_of(number) + b"\x00"

    def several(values: Any) -> bytes:
        return b"".join([write(value) if value is not None else zero for value in values])

    return several


def _map(tag: bytes, value: Encoder) -> Encoder:
    text = _string(_ITEM)

    def encode(entries: Any) -> bytes:
        parts = []
        for key, entry in entries.items():
            inner = text(key) + (b"" if entry is None else value(entry))
            parts.append(tag + varint(len(inner)) + inner)
        return b"".join(parts)

    return encode


def field_writer(number: int, kind: str) -> Encoder:
    """Writes one value of a field with its tag."""
    if kind in NUMBERS:
        return (_boolean if kind == "bool" else _integer)(tag_of(number, 0))
    if kind == "double":
        return _double(tag_of(number, 1))
    tag = tag_of(number)
    if kind == "string":
        return _string(tag)
    return _message(tag, _SPECIAL.get(kind) or encoder(kind))


def _string(tag: bytes) -> Encoder:
    def encode(value: Any) -> bytes:
        data = value.encode()
        size = len(data)
        return tag + (_VARINTS[size] if size < _KEPT else _long_varint(size)) + data  # type: ignore[no-any-return]

    return encode


def _message(tag: bytes, inner: Encoder) -> Encoder:
    def encode(value: Any) -> bytes:
        data = inner(value)
        size = len(data)
        return tag + (_VARINTS[size] if size < _KEPT else _long_varint(size)) + data

    return encode


def _integer(tag: bytes) -> Encoder:
    def encode(value: Any) -> bytes:
        if value.__class__ is not int:
            value = _whole(value)
        return tag + varint(value)

    return encode


def _whole(value: Any) -> int:
    if value.__class__ is float and value.is_integer():
        return int(value)
    raise TypeError(f"{value!r:.40} is no integer")


def _boolean(tag: bytes) -> Encoder:
    forms = {False: tag + b"\x00", True: tag + b"\x01"}

    def encode(value: Any) -> bytes:
        if value.__class__ is not bool:
            raise TypeError(f"{value!r:.40} is no boolean")
        return forms[value]

    return encode


def _double(tag: bytes) -> Encoder:
    def encode(value: Any) -> bytes:
        return tag + struct.pack("<d", value)

    return encode


# -- types whose JSON is not their message

_SECONDS, _NANOS = tag_of(1, 0), tag_of(2, 0)
_STRING = tag_of(3)


@lru_cache(maxsize=4096)  # many objects are written in one second
def _time(value: str) -> bytes:
    return _SECONDS + varint(int(_moment(value).timestamp() // 1)) + _NANOS + b"\x00"


def _microtime(value: str) -> bytes:
    at = _moment(value)
    whole = int(at.replace(microsecond=0).timestamp())
    return _SECONDS + varint(whole) + _NANOS + varint(at.microsecond * 1000)


def _moment(value: str) -> datetime:
    at = moment(value)
    if at is None:
        raise TypeError(f"{value!r:.40} is no time")
    return at


def _quantity(value: Any) -> bytes:
    text = value if value.__class__ is str else repr(_number(value))
    data = text.encode()
    return _ITEM + varint(len(data)) + data


def _number(value: Any) -> int | float:
    if value.__class__ is int or value.__class__ is float:
        return value
    raise TypeError(f"{value!r:.40} is no quantity")


def _intstr(value: Any) -> bytes:
    if value.__class__ is str:
        data = value.encode()
        return _SECONDS + b"\x01" + _NANOS + b"\x00" + _STRING + varint(len(data)) + data
    return _SECONDS + b"\x00" + _NANOS + varint(value if value.__class__ is int else _whole(value)) + _STRING + b"\x00"


def _raw(value: Any) -> bytes:
    return block(_ITEM, orjson.dumps(value))


def _base64(value: Any) -> bytes:
    return a2b_base64(value)


_SPECIAL: dict[str, Encoder] = {
    "time": _time,
    "microtime": _microtime,
    "quantity": _quantity,
    "intstr": _intstr,
    "raw": _raw,
    "bytes": _base64,
}
