"""Answers in protobuf: objects, lists, watch events, and whatever else has been answered as JSON.

An answer is four magic bytes and a runtime.Unknown around the message. An event of a watch is a meta.WatchEvent, whose
object has such an envelope of its own, behind its length in four bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from api.engine.status import StatusError
from api.objects.sharedbytes import SharedBytes
from api.wire.protobuf.reading import MAGIC
from api.wire.protobuf.tables import kind_message
from api.wire.protobuf.writing import UnwritableValue, block, encode_kind, encode_message, tag_of, varint
from api.wire.servedkind import ServedKind
from fleet.values.ports import StoredObject

_FIRST, _SECOND = tag_of(1), tag_of(2)
_NO_ENCODING = tag_of(3) + b"\x00" + tag_of(4) + b"\x00"  # as gogo writes two empty strings

# Messages of stored objects by their JSON: lists send the same ones again and again. The keys take as much room again.
_written = SharedBytes(16 << 20)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message as a whole answer."""
    return around(api_version, kind, block(_SECOND, message))


def around(api_version: str, kind: str, field: bytes) -> bytes:
    """The same for the field of a message."""
    return b"".join((*_head(api_version, kind), field, _NO_ENCODING))


def _head(api_version: str, kind: str) -> tuple[bytes, bytes]:
    return MAGIC, block(_FIRST, block(_FIRST, api_version.encode()) + block(_SECOND, kind.encode()))


def whole(body: Mapping[str, Any]) -> bytes:
    """An object as a whole answer. StatusError 406 when its kind, or its JSON, has no protobuf form."""
    try:
        return envelope(body.get("apiVersion", ""), body["kind"], encode_kind(body))
    except UnwritableValue as error:
        raise _refused(error) from None


def from_json(raw: bytes) -> bytes | None:
    """The same for JSON bytes, None when they are no object of a kind that has a protobuf form."""
    body = orjson.loads(raw)
    if not isinstance(body, dict) or kind_message(body.get("apiVersion", ""), body.get("kind", "")) is None:
        return None
    return whole(body)


def stored_field(stored: StoredObject, served: ServedKind, *, reuse: bool = True) -> bytes:
    """The message of a stored object under a version that serves it, as the field that it is in an envelope and in a
    list. `reuse`: it is made once. StatusError 406 as in `whole`."""
    key = (stored.raw, served.api_version)
    data = _written.get(key) if reuse else None
    if data is None:
        try:
            data = block(_SECOND, encode_kind(served.in_version(stored.body)))
        except UnwritableValue as error:
            raise _refused(error) from None
        if reuse:
            _written.put(key, data)
    return data


def list_of(api_version: str, kind: str, meta: Mapping[str, object], items: Sequence[bytes]) -> list[bytes]:
    """The pieces of a list object around the fields of its items, which may be joined."""
    first = block(_FIRST, encode_message("meta.v1.ListMeta", meta))
    size = len(first) + sum(map(len, items))
    begin = b"".join((*_head(api_version, kind), _SECOND, varint(size), first, items[0]))
    return [begin, *items[1:-1], items[-1] + _NO_ENCODING] if len(items) > 1 else [begin + _NO_ENCODING]


def frame(event: str, whole_object: bytes) -> bytes:
    """An event of a watch, as the stream carries it."""
    data = block(_FIRST, event.encode()) + block(_SECOND, block(_FIRST, whole_object))
    return len(data).to_bytes(4, "big") + data


def _refused(error: UnwritableValue) -> StatusError:
    return StatusError(406, "NotAcceptable", f"the object has no protobuf form, ask for JSON: {error}")
