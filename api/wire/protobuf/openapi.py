"""OpenAPI documents in protobuf: version 2 is what client-go and kubectl ask for first, version 3 what client-go reads.

The messages of both stand in openapi.txt. JSON and messages differ in a few regular ways: a map is a list of named
values, extensions (`x-…`) are a list beside the other fields, and free values are text in YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import orjson

from api.wire.protobuf.writing import block, field_writer, tag_of

EXTENSIONS = ("vendorExtension", "specificationExtension")
SCALARS = frozenset(("string", "bool", "int64", "double"))
Encoder = Callable[[Any], bytes]


class SchemaField(NamedTuple):
    number: int
    name: str
    type: str
    repeated: bool


def encode(document: Mapping[str, Any]) -> bytes:
    """A whole document, of version 2 or 3."""
    return _encoder("v3" if "openapi" in document else "v2", "Document")(document)


@cache
def messages() -> dict[tuple[str, str], tuple[bool, tuple[SchemaField, ...]]]:
    """By version and name: does one field stand for the message; the fields."""
    table: dict[tuple[str, str], tuple[bool, tuple[SchemaField, ...]]] = {}
    version = ""
    for line in (files("api.wire.protobuf") / "openapi.txt").read_text().splitlines():
        if line.startswith("@"):
            version = line.split()[1]
        elif not line.startswith("#"):
            name, _, fields = line.partition(":")
            words = [text.split() for text in fields.split(",") if text.strip()]
            parsed = tuple(SchemaField(int(n), field, kind.rstrip("*"), kind.endswith("*")) for n, field, kind in words)
            table[version, name.rstrip("|")] = name.endswith("|"), parsed
    return table


@cache
def _encoder(version: str, name: str) -> Encoder:
    one_of, fields = messages()[version, name]
    if name == "Any":
        return lambda value: block(_YAML, orjson.dumps(value))  # JSON is YAML
    if one_of:
        return _choice(version, {field.name: field for field in fields})
    if len(fields) == 1 and fields[0].repeated and not fields[0].type.startswith("Named"):
        only = _writer(version, fields[0])  # one value where there may be several
        return lambda value: only(value if isinstance(value, list) else [value])
    return _plain(version, fields)


_YAML = tag_of(2)


def _plain(version: str, fields: tuple[SchemaField, ...]) -> Encoder:
    named = [field for field in fields if field.type.startswith("Named")]
    writers = {field.name: _writer(version, field) for field in fields if field not in named}
    extension = next((_entry(version, field) for field in named if field.name in EXTENSIONS), None)
    other = next((_entry(version, field) for field in named if field.name not in EXTENSIONS), None)

    def encode(body: Any) -> bytes:
        parts = []
        for key, value in body.items():
            writer = writers.get(key)
            if writer is not None:
                parts.append(writer(value))
            elif extension is not None and key.startswith("x-"):
                parts.append(extension(key, value))
            elif other is not None:
                parts.append(other(key, value))
        return b"".join(parts)

    return encode


def _entry(version: str, field: SchemaField) -> Callable[[str, Any], bytes]:
    """Writes an entry of a map, which the field has as a list of named values."""
    tag, name_tag, value_tag = tag_of(field.number), tag_of(1), tag_of(2)
    kind = field.type.removeprefix("Named")
    inner: Encoder = str.encode if kind == "String" else _later(version, kind)
    return lambda key, value: block(tag, block(name_tag, key.encode()) + block(value_tag, inner(value)))


def _later(version: str, kind: str) -> Encoder:
    """Messages contain themselves: their encoder is made when it is first used."""
    return lambda value: _encoder(version, kind)(value)


def _writer(version: str, field: SchemaField) -> Encoder:
    """Writes a field with its tag."""
    if field.type in SCALARS:
        write = field_writer(field.number, field.type)
    else:
        tag, inner = tag_of(field.number), _later(version, field.type)

        def write(value: Any) -> bytes:
            return block(tag, inner(value))

    return (lambda values: b"".join(map(write, values))) if field.repeated else write


def _choice(version: str, fields: dict[str, SchemaField]) -> Encoder:
    """A message that is one of several things, which the JSON shows."""
    writers = {name: _writer(version, field) for name, field in fields.items()}
    reference = next((name for name in writers if name.lower().endswith("reference") and "Or" not in name), "")
    first = next(iter(writers))

    def encode(value: Any) -> bytes:
        if value.__class__ is not dict:
            kind = "boolean" if value.__class__ is bool else "string" if value.__class__ is str else "number"
            return writers[kind](value) if kind in writers else b""  # a default that is no scalar has no form
        if reference and "$ref" in value:
            return writers[reference](value)
        where = value.get("in")
        if first == "bodyParameter":
            return writers[first if where == "body" else "nonBodyParameter"](value)
        if first == "headerParameterSubSchema":
            return writers[f"{where}ParameterSubSchema"](value)
        return writers[first](value) if fields[first].type not in SCALARS else b""

    return encode
