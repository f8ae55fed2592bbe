"""Random bodies of any message, from the tables, the frames of a watch, and messages field by field."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

from api.wire.protobuf import MAGIC, decode_message
from api.wire.protobuf.reading import walk
from api.wire.protobuf.tables import SCALARS, SPECIAL, Field, message

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
            elif value != {} or field.keeps_zero:
                out[field.name] = value
    return out


def _field(field: Field, random: Random, depth: int) -> Any:
    if field.map:
        return {_text(random): _one(field, random, depth, True) for _ in range(random.randint(1, 3))}
    if field.repeated:
        return [_one(field, random, depth, True) for _ in range(random.randint(1, 3))]
    return _one(field, random, depth, field.keeps_zero)


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


def inside(whole: bytes) -> bytes:
    """The message in an answer."""
    assert whole[:4] == MAGIC
    return _data(next(value for number, _, value in walk(whole[4:]) if number == 2))


def settled(data: bytes, name: str) -> tuple[Any, ...]:
    """A message without what two writers may do in their own ways: the order of fields and of the entries of maps, and
    the zeros that are written. AssertionError for a field that the tables do not have."""
    fields = {field.number: field for field in message(name).fields}
    out: list[tuple[int, Any]] = []
    for number, _, value in walk(data):
        assert number in fields, f"{name} has a field {number}"
        field = fields[number]
        if field.map:
            entry = {n: v for n, _, v in walk(_data(value))}
            part: Any = (entry.get(1, b""), _part(entry.get(2, b""), field.type))
        else:
            part = _part(value, field.type)
        if field.map or field.repeated or part not in (0, b"", ()):
            out.append((number, part))
    ordered = sorted(out, key=lambda item: (item[0], item[1][0] if fields[item[0]].map else b""))
    return tuple(ordered)


def _data(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _part(value: int | bytes, kind: str) -> Any:
    return value if isinstance(value, int) or kind in SCALARS | SPECIAL else settled(value, kind)


_TYPE = re.compile(r"volumeClaimTemplates\[\d\]\.(kind|apiVersion)$")  # stands in JSON alone


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(_empty(part) for part in value.values()))


def lost(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """The places where a decoded message is not its JSON. Empty objects and nulls of the JSON are not missed."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            if key not in found:
                if not _empty(wanted[key]) and not _TYPE.search(f"{path}.{key}"):
                    yield f"{path}.{key}: {wanted[key]!r:.80} is lost"
            else:
                yield from lost(found[key], wanted.get(key), f"{path}.{key}")
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for index, pair in enumerate(zip(found, wanted, strict=True)):
            yield from lost(*pair, f"{path}[{index}]")
    elif found != wanted:
        yield f"{path}: {found!r:.80} for {wanted!r:.80}"


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + block(1, block(1, api_version) + block(2, kind)) + block(2, raw) + block(3, "") + block(4, "")
