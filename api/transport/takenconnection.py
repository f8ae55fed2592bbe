"""A connection that has left HTTP for another protocol, with both directions bounded.

Bytes that nothing has taken yet stop the reading of the connection, and a sender waits while the transport holds more
than it likes to.
"""

from __future__ import annotations

import asyncio
from collections import deque

from api.transport.protocol import TunnelProtocol

UNREAD_MAX = 512 * 1024  # bytes that nothing has taken yet


class TakenConnection(TunnelProtocol):
    """What the other protocols share: a queue of what came, and writing."""

    close_s = 1.0  # to write what is left

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._paused = False
        self._news, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._over = False
        self._reason = ""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._reason = self._reason or (str(exc) if exc is not None else "")
        self._news.set()
        self._writable.set()
        self.lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- for the protocol

    def _came(self, data: bytes) -> None:
        self._unread.append(data)
        self._unread_bytes += len(data)
        self._news.set()

    def _rest(self) -> None:
        """Read no more while there is much that nothing has taken."""
        if self._unread_bytes > UNREAD_MAX and not self._paused and self._transport is not None and not self._over:
            self._paused = True
            self._transport.pause_reading()

    async def _next(self) -> bytes | None:
        """What came first of all that is left; None at the end."""
        while not self._unread:
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        chunk = self._unread.popleft()
        self._unread_bytes -= len(chunk)
        if self._paused and self._unread_bytes <= UNREAD_MAX // 2 and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return chunk

    async def _put(self, data: bytes) -> None:
        """Raises ConnectionError once the connection is closed."""
        if self._over or self._transport is None or self._transport.is_closing():
            raise ConnectionError(self._reason or "the connection is closed")
        self._transport.write(data)
        if not self._writable.is_set():
            await self._writable.wait()

    def _end(self, last: bytes) -> None:
        """Write the last bytes and close. A client that reads nothing does not keep the connection."""
        transport = self._transport
        self._over = True
        self._news.set()
        if transport is None or transport.is_closing():
            return
        if last:
            transport.write(last)
        transport.close()
        asyncio.get_running_loop().call_later(self.close_s, transport.abort)

    async def close(self, code: int, reason: str) -> None:
        raise NotImplementedError


class RawPipe(TakenConnection):
    """The bytes themselves, of a protocol that this server does not look into."""

    close_s = 30.0  # the end of an answer may be in the transport yet

    def data_received(self, data: bytes) -> None:
        if not self._over:
            self._came(data)
            self._rest()

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        return await self._next() or b""

    async def write(self, data: bytes) -> None:
        await self._put(data)

    async def close(self, code: int, reason: str) -> None:
        self._end(b"")
