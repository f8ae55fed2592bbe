"""Bytes that many answers share."""

from __future__ import annotations

from collections import OrderedDict


class SharedBytes:
    """Bytes by key, made once for all readers; bounded by size, the oldest go first."""

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._bytes: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._size = 0
        self._max = max_bytes

    def get(self, key: tuple[object, ...]) -> bytes | None:
        return self._bytes.get(key)

    def put(self, key: tuple[object, ...], data: bytes) -> None:
        before = self._bytes.pop(key, b"")
        self._bytes[key] = data
        self._size += len(data) - len(before)
        while self._size > self._max and self._bytes:
            _, old = self._bytes.popitem(last=False)
            self._size -= len(old)
