"""The memory that the objects of one process take: what is read stays plain, the rest is compressed.

Objects of a kind resemble each other. So each resource has a dictionary, made of its first objects, and an object of
some hundred bytes is left with a fifth of them. Making it plain again takes two microseconds. The bytes that were made
plain first are packed first, also when they have been read since: a queue costs less than an order of use, and an
object that is still in use is plain again after its next reading. The parsed form takes several times the room of the
bytes, and has a bound of its own.
"""

from __future__ import annotations

import zlib
from collections import deque
from contextlib import suppress
from threading import Lock

from fleet.values.ports import StoredObject

PLAIN_BYTES = 64 << 20
PARSED_COST = 4  # times the bytes of an object: about the size of its parsed form
WINDOW_BITS = -13  # no header; a window of 8 KiB is copied faster than a larger one
MEMORY_LEVEL = 5
DICTIONARY_BYTES = 8 << 10


class Codec:
    """Packs the bodies of one resource. `samples`: what they resemble."""

    __slots__ = ("_pack", "_unpack")

    def __init__(self, samples: bytes) -> None:
        self._pack = zlib.compressobj(
            1, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, samples[-DICTIONARY_BYTES:]
        )
        self._unpack = zlib.decompressobj(WINDOW_BITS, samples[-DICTIONARY_BYTES:])

    def pack(self, raw: bytes) -> bytes:
        one = self._pack.copy()  # the dictionary is read in once
        return one.compress(raw) + one.flush()

    def unpack(self, packed: bytes) -> bytes:
        return self._unpack.copy().decompress(packed)


class Bodies:
    """Keeps the bodies of a process within their bounds (ports.Keeper). `parsed_bytes`: None for no bound."""

    def __init__(self, plain_bytes: int = PLAIN_BYTES, parsed_bytes: int | None = None) -> None:
        self._plain_max, self._parsed_max = plain_bytes, parsed_bytes
        self._plain: deque[tuple[StoredObject, int]] = deque()
        self._parsed: deque[tuple[StoredObject, int]] = deque()
        self._plain_bytes = self._parsed_bytes = 0
        self._codecs: dict[tuple[str, ...], Codec] = {}  # by group and resource
        self._lock = Lock()  # long work in other threads reads objects too

    def keep(self, stored: StoredObject) -> None:
        """Take charge of a stored object, which is plain."""
        if stored.keeper is None:
            stored.keeper = self
            self._add(stored, len(stored.raw))

    def release(self, stored: StoredObject) -> None:
        """Let go of an object that is past: the log forgets it soon, and packing it would be in vain."""
        stored.drop_parsed()
        if stored.packed is None:
            stored.keeper = None

    def plain(self, stored: StoredObject) -> bytes:
        """The bytes of a packed object, which stay plain for a while."""
        raw = self.unpacked(stored)
        stored.raw = raw
        self._add(stored, len(raw))
        return raw

    def unpacked(self, stored: StoredObject) -> bytes:
        """The bytes of a packed object, which stays packed."""
        assert stored.packed is not None
        return self._codecs[stored.key[:2]].unpack(stored.packed)

    def parsed(self, stored: StoredObject, size: int) -> None:
        """Note that an object of so many bytes has been parsed."""
        if self._parsed_max is None:
            return
        with self._lock:
            self._parsed.append((stored, size * PARSED_COST))
            self._parsed_bytes += size * PARSED_COST
            while self._parsed_bytes > self._parsed_max:
                oldest, cost = self._parsed.popleft()
                self._parsed_bytes -= cost
                oldest.drop_parsed()

    def _add(self, stored: StoredObject, size: int) -> None:
        with self._lock:
            self._plain.append((stored, size))
            self._plain_bytes += size
            while self._plain_bytes > self._plain_max:
                oldest, size = self._plain.popleft()
                self._plain_bytes -= size
                if oldest.keeper is not None:
                    self._pack(oldest)

    def _pack(self, stored: StoredObject) -> None:
        if stored.packed is None:
            stored.packed = self._codec(stored).pack(stored.raw)
        with suppress(AttributeError):  # two readers at once have made it plain twice
            del stored.raw

    def _codec(self, stored: StoredObject) -> Codec:
        found = self._codecs.get(stored.key[:2])
        if found is None:
            found = self._codecs[stored.key[:2]] = Codec(self._samples(stored))
        return found

    def _samples(self, first: StoredObject) -> bytes:
        """The bytes of an object and of others of its resource, as many as a dictionary has room for."""
        samples, room = [first.raw], DICTIONARY_BYTES - len(first.raw)
        for other, _ in self._plain:
            if room <= 0:
                break
            if other.packed is None and other.key[:2] == first.key[:2]:
                samples.append(other.raw)
                room -= len(other.raw)
        return b"".join(samples)
