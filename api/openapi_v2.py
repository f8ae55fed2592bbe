"""OpenAPI v2 in protobuf, the form that kubectl 1.27 and 1.28, and Argo CD, ask for.

The messages are those of gnostic's openapi.v2.Document; only the fields that our documents use are written. Protobuf
on the wire is simple enough (a tag, a length, the bytes) that generated code would be the larger part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def encode(document: Mapping[str, Any]) -> bytes:
    """A whole document: swagger, info, paths and definitions."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_bytes(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    definitions = b"".join(_bytes(1, _named(name, _schema(s))) for name, s in document["definitions"].items())
    return _text(1, document["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, definitions)


# -- the wire


def _varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode()) if value else b""


def _texts(field: int, values: Iterable[str]) -> bytes:
    return b"".join(_bytes(field, value.encode()) for value in values)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _any(value: Any) -> bytes:
    """gnostic keeps free values as YAML text; JSON is YAML."""
    return _bytes(2, orjson.dumps(value))


def _extensions(field: int, source: Mapping[str, Any]) -> bytes:
    return b"".join(_bytes(field, _named(k, _any(v))) for k, v in source.items() if k.startswith("x-"))


# -- schemas

_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "uniqueItems": 16,
                   "maxProperties": 17, "minProperties": 18, "exclusiveMaximum": 8, "exclusiveMinimum": 10}  # fmt: skip
_SCHEMA_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}


def _schema(schema: Mapping[str, Any]) -> bytes:
    out: list[bytes] = []
    for key, value in schema.items():
        if key in _SCHEMA_TEXTS:
            out.append(_text(_SCHEMA_TEXTS[key], value))
        elif key in _SCHEMA_NUMBERS:
            out.append(_number(_SCHEMA_NUMBERS[key], int(value)))
        elif key in _SCHEMA_DOUBLES:
            out.append(_double(_SCHEMA_DOUBLES[key], float(value)))
        elif key == "default":
            out.append(_bytes(5, _any(value)))
        elif key == "required":
            out.append(_texts(18, value))
        elif key == "enum":
            out.extend(_bytes(19, _any(item)) for item in value)
        elif key == "additionalProperties":
            inner = _bytes(1, _schema(value)) if isinstance(value, dict) else _number(2, int(value))
            out.append(_bytes(21, inner))
        elif key == "type":
            out.append(_bytes(22, _text(1, value)))
        elif key == "items":
            out.append(_bytes(23, _bytes(1, _schema(value))))
        elif key == "properties":
            out.append(_bytes(25, b"".join(_bytes(1, _named(n, _schema(c))) for n, c in value.items())))
    out.append(_extensions(31, schema))
    return b"".join(out)


# -- paths

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Mapping[str, Any]) -> bytes:
    operations = b"".join(_bytes(field, _operation(item[m])) for m, field in _METHODS.items() if m in item)
    return operations + b"".join(_bytes(9, _parameter(p)) for p in item.get("parameters", ()))


def _operation(operation: Mapping[str, Any]) -> bytes:
    responses = b"".join(
        _bytes(1, _named(code, _bytes(1, _response(response)))) for code, response in operation["responses"].items()
    )
    return (
        _text(3, operation.get("description", ""))
        + _text(5, operation.get("operationId", ""))
        + _texts(6, operation.get("produces", ()))
        + _texts(7, operation.get("consumes", ()))
        + b"".join(_bytes(8, _parameter(p)) for p in operation.get("parameters", ()))
        + _bytes(9, responses)
        + _extensions(13, operation)
    )


def _response(response: Mapping[str, Any]) -> bytes:
    schema = response.get("schema")
    return _text(1, response["description"]) + (_bytes(2, _bytes(1, _schema(schema))) if schema else b"")


def _parameter(parameter: Mapping[str, Any]) -> bytes:
    """ParametersItem{parameter: body or query or path}."""
    where = parameter["in"]
    if where == "body":
        body = _text(2, parameter["name"]) + _text(3, where) + _number(4, int(parameter.get("required", False)))
        return _bytes(1, _bytes(1, body + _bytes(5, _schema(parameter["schema"]))))
    required = _number(1, int(parameter.get("required", False)))
    shared = required + _text(2, where) + _text(3, parameter.get("description", "")) + _text(4, parameter["name"])
    if where == "query":
        return _bytes(1, _bytes(2, _bytes(3, shared + _text(6, parameter["type"]))))
    return _bytes(1, _bytes(2, _bytes(4, shared + _text(5, parameter["type"]))))
