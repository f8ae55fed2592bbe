"""Two streams of bytes made one: what comes out of the one goes into the other, each way at its own speed."""

from __future__ import annotations

import asyncio
from typing import Protocol

PIECE = 32 * 1024
LINGER_S = 60.0  # of one way after the end of the other: an end that never closes must not hold its stream for ever


class Duplex(Protocol):
    """Bytes both ways. Every method but `abort` may raise OSError."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def write_eof(self) -> None: ...

    def abort(self, reason: str) -> None: ...


class Socket:
    """A Duplex over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def abort(self, reason: str) -> None:
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


async def splice(first: Duplex, other: Duplex) -> None:
    """Until both ends have said all, or one of them breaks: then the other breaks too."""
    ways = [asyncio.create_task(_pass(first, other)), asyncio.create_task(_pass(other, first))]
    try:
        done, open_ways = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        broken = _first_error(done)
        if broken is None and open_ways:
            more, open_ways = await asyncio.wait(open_ways, timeout=LINGER_S)
            broken = _first_error(more)
        if broken is None and open_ways:
            broken = ConnectionError("half closed for too long")
        if broken is not None:
            for each in (first, other):
                each.abort(str(broken) or type(broken).__name__)
            if not isinstance(broken, OSError):
                raise broken
    except asyncio.CancelledError:
        for each in (first, other):
            each.abort("not wanted any more")
        raise
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


def _first_error(ways: set[asyncio.Task[None]]) -> BaseException | None:
    return next((error for way in ways if (error := way.exception()) is not None), None)


async def _pass(source: Duplex, sink: Duplex) -> None:
    while data := await source.read():
        await sink.write(data)
    await sink.write_eof()
