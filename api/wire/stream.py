"""Sending an answer that goes on, and ending it: by itself, by time, by the client or by the server. The life of the
server itself, as ASGI tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from api.wire.http import Receive, Send, Stream

log = structlog.get_logger(__name__)


class BrokenStream(Exception):
    """A stream ended before its end: the connection is cut, so that a client cannot take what it got for the whole."""


async def send_stream(
    answer: Stream, receive: Receive, send: Send, stopping: asyncio.Event, over: asyncio.Event | None = None
) -> None:
    """Send until the stream ends, its time is over, the client has gone, or `stopping` or `over` (the right to it has
    ended) is set. Raises BrokenStream when the stream fails."""
    pump: asyncio.Task[None] | None = None
    waits: list[asyncio.Task[object]] = []
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
        await send({"type": "http.response.body", "body": b"", "more_body": True})

        async def chunk(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async def run() -> None:
            await answer.pump(chunk)

        pump = asyncio.create_task(run())
        gone: asyncio.Task[object] = asyncio.create_task(_disconnected(receive))
        ends = (stopping, over) if over is not None else (stopping,)
        waits = [gone, *(asyncio.create_task(event.wait()) for event in ends)]
        await asyncio.wait((pump, *waits), timeout=answer.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        client_gone = gone.done()
    finally:
        tasks = [*waits, pump] if pump is not None else waits
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if answer.done is not None:
            await answer.done()
    if client_gone:
        return
    failed = None if pump.cancelled() else pump.exception()
    if failed is not None:
        log.warning("stream broken", why=repr(failed)[:300])
        raise BrokenStream from failed
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_gone(pieces: AsyncIterator[bytes], receive: Receive) -> AsyncIterator[bytes]:
    """The pieces, until the client has gone: no more are made then."""
    disconnect = asyncio.create_task(_disconnected(receive))
    try:
        async for piece in pieces:
            if disconnect.done():
                return
            yield piece
    finally:
        disconnect.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def lifespan(
    receive: Receive, send: Send, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
) -> None:
    """Start and stop when the server says so."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
