"""Two ends of a connection in memory, which can be cut and stalled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fleet.agent.mux import Mux, MuxLimits, Stream

QUICK = MuxLimits(streams=4, window=64 * 1024, ping_s=0.1, silent_s=0.5, open_s=2.0)


class MemoryPipe:
    """A Pipe. `deaf`: it takes messages, and none arrives; the peer hears no end, as from a machine without power."""

    def __init__(self) -> None:
        self.other: MemoryPipe | None = None
        self.deaf = False
        self.sent = 0
        self.most_waiting = 0
        self._came: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=8)
        self._over = asyncio.Event()
        self.last = (0, "")

    async def send(self, message: bytes) -> None:
        if self._over.is_set():
            raise ConnectionError("closed")
        self.sent += len(message)
        assert self.other is not None
        if not self.deaf:
            await self.other._came.put(message)

    async def receive(self) -> bytes | None:
        message = await self._came.get()
        if message is None:
            self._over.set()
        return message

    async def close(self, code: int, reason: str) -> None:
        self._over.set()
        other = self.other
        if other is None or self.deaf or other._over.is_set():
            return
        other.last = (code, reason)
        while other._came.full():
            other._came.get_nowait()
        other._came.put_nowait(None)

    def end_status(self) -> tuple[int, str]:
        return self.last


Handler = Callable[[Stream], Awaitable[None]]


@asynccontextmanager
async def two(accept: Handler | None, limits: MuxLimits = QUICK) -> Any:
    """The opener's Mux and the accepter's, with their pipes."""
    near, far = MemoryPipe(), MemoryPipe()
    near.other, far.other = far, near
    opener, accepter = Mux(near, None, limits), Mux(far, accept, limits)
    running = [asyncio.create_task(mux.run()) for mux in (opener, accepter)]
    try:
        yield opener, accepter, near, far
    finally:
        opener.close("the test ends")
        accepter.close("the test ends")
        await asyncio.gather(*running)


async def echo(stream: Stream) -> None:
    """A Handler."""
    await stream.accept()
    while data := await stream.read():
        await stream.write(data)
    await stream.write_eof()
