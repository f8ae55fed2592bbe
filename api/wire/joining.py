"""Lists of many objects: made part by part, with turns for other requests, and sent in pieces.

An answer of 100 MB is not one string: to join it would be a step of a tenth of a second. Its pieces are made as the
client reads, so a slow one costs the memory of its first pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import orjson

from api.slices import unhurried
from api.wire.servedkind import ServedKind
from fleet.values.ports import StoredObject

Item = TypeVar("Item")
PART = 32  # items made, or joined, between two looks at the clock
MANY = 5000  # items; those that are packed stay so, since they would push out what is read more often
JOINED_BYTES = 256 * 1024
END = b"]}"


async def parts(items: Sequence[Item]) -> AsyncIterator[Sequence[Item]]:
    """The items in parts, one at least."""
    async for at in unhurried(range(0, max(len(items), 1), PART)):
        yield items[at : at + PART]


async def read(items: Sequence[StoredObject]) -> AsyncIterator[Sequence[StoredObject]]:
    """The same of stored objects, to be parsed."""
    many = len(items) > MANY
    async for part in parts(items):
        yield [stored.once(packed=many) for stored in part]


async def raws(served: ServedKind, items: Sequence[StoredObject]) -> AsyncIterator[Sequence[bytes]]:
    """The bytes of stored objects, as this version of the kind has them."""
    many = len(items) > MANY
    async for part in parts(items):
        found = [stored.raw_once() for stored in part] if many else [stored.raw for stored in part]
        yield [served.outward(raw) for raw in found] if served.converted else found


async def joined(
    begin: bytes, items: AsyncIterator[Sequence[bytes]], *, first: bytes = b"", comma: bytes = b",", end: bytes = END
) -> AsyncIterator[bytes]:
    """The pieces of an answer: all items, with what stands before, between and behind them. `first`: before the first
    item. A piece is made when it is asked for."""
    head = begin + first
    waiting: list[bytes] = []
    size = 0
    async for some in items:
        waiting += some
        size += sum(map(len, some))
        if size >= JOINED_BYTES:
            yield head + comma.join(waiting)
            head, waiting, size = b"", [b""], 0  # the next piece begins with a comma
    if not waiting:
        yield begin + end
    else:
        yield b"".join((head, comma.join(waiting) if waiting != [b""] else b"", end))


def list_pieces(
    served: ServedKind, meta: dict[str, object], items: AsyncIterator[Sequence[bytes]]
) -> AsyncIterator[bytes]:
    """A list object around items that are JSON already. The items of a built-in kind do not repeat its name, as in a
    kube-apiserver, whose typed clients compare them with single objects."""
    head = orjson.dumps({"kind": served.kind.list_kind, "apiVersion": served.api_version, "metadata": meta})
    begin = head[:-1] + b',"items":['
    if not served.kind.builtin:
        return joined(begin, items)
    bare = (_nameless(served, some) async for some in items)
    return joined(begin, bare, first=b"{", comma=b",{")


def _nameless(served: ServedKind, items: Sequence[bytes]) -> list[bytes]:
    """The items without `kind` and `apiVersion`, which stand first in what is stored, and without their first brace:
    none is parsed."""
    kind, version = f'"kind":"{served.kind.kind}",'.encode(), f'"apiVersion":"{served.api_version}",'.encode()
    for head in (b"{" + kind + version, b"{" + version + kind):
        bare = [raw.removeprefix(head) for raw in items]
        if sum(map(len, items)) - sum(map(len, bare)) == len(head) * len(bare):
            return bare
    heads = (b"{" + kind + version, b"{" + version + kind)
    return [raw[len(heads[0]) :] if raw.startswith(heads) else _without_name(raw) for raw in items]


def _without_name(raw: bytes) -> bytes:
    body = orjson.loads(raw)
    return orjson.dumps({key: value for key, value in body.items() if key not in ("kind", "apiVersion")})[1:]
