"""Protobuf request bodies, which every typed client has sent since Kubernetes 1.32: decoded to what the JSON would be.

A body is four magic bytes and a runtime.Unknown that names apiVersion and kind around the object. The wire does not say
which zero values a Go client meant (a nil pointer is absent, any other field is always written), so the tables carry
that: a zero is dropped unless the JSON form would have kept it. Unknown fields are passed over, as protobuf has it.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import orjson

from api.protobuf_messages import MESSAGES
from fleet.engine.bounds import too_deep
from fleet.engine.status import bad_request
from fleet.model.times import rfc3339

MAGIC = b"k8s\x00"
MAX_DEPTH = 40  # messages inside each other; no kind here has more than about twenty

# apiVersion/kind -> message
KINDS = {
    **{
        f"v1/{kind}": f"core.{kind}"
        for kind in (
            "Namespace", "ConfigMap", "Secret", "ServiceAccount", "Event", "Pod", "PersistentVolumeClaim", "Service",
            "ResourceQuota", "LimitRange", "Node", "Binding",
        )
    },
    "scheduling.k8s.io/v1/PriorityClass": "sched.PriorityClass",
    "events.k8s.io/v1/Event": "events.Event",
    "coordination.k8s.io/v1/Lease": "coord.Lease",
    **{
        f"rbac.authorization.k8s.io/v1/{kind}": f"rbac.{kind}"
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    },
    **{
        f"authorization.k8s.io/v1/{kind}": f"authz.{kind}"
        for kind in (
            "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview", "LocalSubjectAccessReview",
        )
    },
    **{
        f"authentication.k8s.io/v1/{kind}": f"authn.{kind}"
        for kind in ("SelfSubjectReview", "TokenReview", "TokenRequest")
    },
    "batch/v1/Job": "batch.Job",
    "autoscaling/v1/Scale": "scale.Scale",
    "policy/v1/Eviction": "policy.Eviction",
}  # fmt: skip


class Field(NamedTuple):
    name: str
    type: str
    repeated: bool
    keep_zero: bool
    inline: bool


class _Malformed(Exception):
    pass


@cache
def _messages() -> dict[str, dict[int, Field]]:
    tables: dict[str, dict[int, Field]] = {}
    for line in MESSAGES.replace("\n  ", " ").strip().split("\n"):
        message, _, fields = line.partition(":")
        table = tables[message] = {}
        for text in fields.split(", "):
            words = text.split()
            if words:
                number, name, kind = words
                table[int(number)] = Field(name, kind.rstrip("*!^"), "*" in kind, "!" in kind, "^" in kind)
    return tables


def decode(data: bytes) -> dict[str, Any]:
    """The object in a request body, as its JSON form. StatusError 400 for bytes that are not one of the known kinds."""
    try:
        if data[:4] != MAGIC:
            raise _Malformed("it does not begin with the magic bytes")
        api_version = kind = ""
        raw = b""
        for number, _, value in _walk(data[4:]):
            if number == 1 and isinstance(value, bytes):
                for inner, _, text in _walk(value):
                    if isinstance(text, bytes):
                        api_version = text.decode() if inner == 1 else api_version
                        kind = text.decode() if inner == 2 else kind
            elif number == 2 and isinstance(value, bytes):
                raw = value
        message = "meta.DeleteOptions" if kind == "DeleteOptions" else KINDS.get(f"{api_version}/{kind}")
        if message is None:
            raise bad_request(f"the protobuf form of {kind[:60]} in {api_version[:60]} is not known here; send JSON")
        return {"kind": kind, "apiVersion": api_version, **_message(raw, message, 0)}
    except (_Malformed, UnicodeDecodeError, struct.error, OverflowError, ValueError) as error:
        raise bad_request(f"couldn't parse the body as protobuf: {error}") from None


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


def _walk(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
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


def _message(data: bytes, message: str, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise _Malformed("it is nested too deeply")
    table = _messages()[message]
    out: dict[str, Any] = {}
    for number, wire, value in _walk(data):
        field = table.get(number)
        if field is None:
            continue
        if field.type.startswith("map:"):
            key, entry = _entry(_bytes(value), field.type[4:], depth)
            out.setdefault(field.name, {})[key] = entry
        elif field.repeated:
            if wire == 2 and field.type in ("int", "bool"):  # packed
                out.setdefault(field.name, []).extend(_packed(_bytes(value), field.type))
            else:
                out.setdefault(field.name, []).append(_value(value, field.type, depth))
        else:
            found = _value(value, field.type, depth)
            if field.inline:
                out.update(found)
            elif field.keep_zero or found not in (None, "", 0, False, {}):
                out[field.name] = found
    return out


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Malformed("a number stands where a message should")
    return value


def _packed(data: bytes, kind: str) -> list[int | bool]:
    at, values = 0, []
    while at < len(data):
        value, at = _varint(data, at)
        values.append(bool(value) if kind == "bool" else _signed(value))
    return values


def _entry(data: bytes, kind: str, depth: int) -> tuple[str, Any]:
    key, value = "", _ZERO[kind]() if kind in _ZERO else {}
    for number, _, part in _walk(data):
        if number == 1:
            key = _bytes(part).decode()
        elif number == 2:
            value = _value(part, kind, depth)
    return key, value


def _value(value: int | bytes, kind: str, depth: int) -> Any:
    if kind in ("int", "bool"):
        if not isinstance(value, int):
            raise _Malformed("a message stands where a number should")
        return bool(value) if kind == "bool" else _signed(value)
    data = _bytes(value)
    special = _SPECIAL.get(kind)
    return special(data) if special is not None else _message(data, kind, depth + 1)


def _numbers(data: bytes) -> dict[int, int | bytes]:
    return {number: value for number, _, value in _walk(data)}


def _integer(parts: dict[int, int | bytes], number: int) -> int:
    value = parts.get(number, 0)
    return _signed(value) if isinstance(value, int) else 0


def _time(data: bytes) -> str | None:
    if not data:
        return None
    return rfc3339(_integer(_numbers(data), 1))


def _microtime(data: bytes) -> str | None:
    if not data:
        return None
    parts = _numbers(data)
    return rfc3339(_integer(parts, 1)).removesuffix("Z") + f".{_integer(parts, 2) // 1000:06d}Z"


def _duration(data: bytes) -> str:
    nanoseconds = _integer(_numbers(data), 1)
    return f"{nanoseconds / 1e9:g}s"


def _quantity(data: bytes) -> str:
    value = _numbers(data).get(1, b"")
    return (value.decode() if isinstance(value, bytes) else "") or "0"


def _intstr(data: bytes) -> int | str:
    parts = _numbers(data)
    if _integer(parts, 1) == 1:
        value = parts.get(3, b"")
        return value.decode() if isinstance(value, bytes) else ""
    return _integer(parts, 2)


def _raw(data: bytes) -> Any:
    value = _numbers(data).get(1, b"")
    if not isinstance(value, bytes) or not value:
        return None
    if too_deep(value):
        raise _Malformed("the JSON in it is nested too deeply")
    return orjson.loads(value)


def _strings(data: bytes) -> list[str]:
    return [value.decode() for number, _, value in _walk(data) if number == 1 and isinstance(value, bytes)]


def _float(data: bytes) -> float:
    return float(struct.unpack("<d" if len(data) == 8 else "<f", data)[0])


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "string": bytes.decode, "bytes": lambda data: b64encode(data).decode(), "float": _float, "time": _time,
    "microtime": _microtime, "duration": _duration, "quantity": _quantity, "intstr": _intstr, "raw": _raw,
    "strings": _strings,
}  # fmt: skip
_ZERO: dict[str, Callable[[], Any]] = {"string": str, "bytes": str, "int": int, "bool": bool, "quantity": lambda: "0"}
