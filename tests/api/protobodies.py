"""Random bodies of any message, from the tables, and the frames of a watch."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

from api.protobuf import decode_message
from api.protobuf.tables import SCALARS, Field, message

DEPTH_MAX = 4  # schemas of CRDs contain themselves


def body_of(name: str, random: Random, depth: int = 0) -> Any:
    """A body that says the same before and after a journey: a zero only where JSON keeps it."""
    found = message(name)
    if found.wrapped:
        return [_text(random) for _ in range(random.randint(1, 3))]
    if found.choice:
        field = random.choice(found.fields)
        return random.random() < 0.5 if field.type == "bool" else _field(field, random, depth)
    out: dict[str, Any] = {}
    for field in found.fields:
        if random.random() < 0.6 / (depth + 1) and (depth < DEPTH_MAX or field.type in SCALARS):
            value = _field(field, random, depth)
            if field.inline:
                out.update(value)
            elif value != {} or field.kept:
                out[field.name] = value
    return out


def _field(field: Field, random: Random, depth: int) -> Any:
    if field.map:
        return {_text(random): _one(field, random, depth, True) for _ in range(random.randint(1, 3))}
    if field.repeated:
        return [_one(field, random, depth, True) for _ in range(random.randint(1, 3))]
    return _one(field, random, depth, field.kept)


def _one(field: Field, random: Random, depth: int, zero: bool) -> Any:
    match field.type:
        case "string":
            return "" if zero and random.random() < 0.2 else _text(random)
        case "bytes":
            return b64encode(random.randbytes(random.randint(0 if zero else 1, 20))).decode()
        case "bool":
            return True if not zero else random.random() < 0.5
        case "int32" | "int64":
            bits = int(field.type[3:]) - 1
            number = random.choice((1, -1, 127, 128, 300, 1 << 20, (1 << bits) - 1, -(1 << bits)))
            return 0 if zero and random.random() < 0.2 else number
        case "double":
            return random.choice((1, -2.5, 1e300, 0.125))
        case "time":
            return f"20{random.randint(10, 99)}-0{random.randint(1, 9)}-1{random.randint(0, 9)}T01:02:03Z"
        case "microtime":
            return f"20{random.randint(10, 99)}-02-03T04:05:06.{random.randint(0, 999999):06d}Z"
        case "quantity":
            return random.choice(("1", "500m", "4Gi", "0", "1e3"))
        case "intstr":
            return random.choice((1, -1, 65535, "http", "25%"))
        case "raw":
            return random.choice(({"a": {"b": [1, "x", None]}}, [1, 2], "text", 7, True))
    return body_of(field.type, random, depth + 1)


def _text(random: Random) -> str:
    return random.choice(("a", "name", "ü€𝄞", "x" * 130, "line\nbreak"))


def frames(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The whole events in the bytes of a watch: (type, object)."""
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            return
        event = decode_message(data[4 : 4 + size], "meta.v1.WatchEvent")
        yield event["type"], event["object"]
        data = data[4 + size :]
