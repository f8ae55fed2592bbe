"""Several streams of one operation, read beside each other in an event loop: of the program, or of a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from fleet.client.steps import Answer, Came, Open, Request, refused

R = TypeVar("R")
AT_HAND = 1000  # lines that are read before the operation takes some

Ask = Callable[[Request, AsyncExitStack], Awaitable[tuple[Answer, AsyncIterator[str]]]]
Next = Callable[[AsyncIterator[str]], Awaitable[str | None]]


class Streams:
    """The streams of one operation. What comes is kept in order, and within bounds."""

    def __init__(self, ask: Ask, next_line: Next) -> None:
        self._ask, self._next = ask, next_line
        self._came: asyncio.Queue[Came] = asyncio.Queue(AT_HAND)
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, command: Open) -> None:
        task = asyncio.create_task(self._read(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def next(self, within_s: float) -> list[Came]:
        try:
            async with asyncio.timeout(within_s):
                found = [await self._came.get()]
        except TimeoutError:
            return []
        while len(found) < AT_HAND and not self._came.empty():
            found.append(self._came.get_nowait())
        return found

    async def _read(self, command: Open) -> None:
        error: Exception | None = None
        try:
            async with AsyncExitStack() as opened:
                answer, lines = await self._ask(command.request, opened)
                if not answer.ok:
                    raise refused(answer)
                while (line := await self._next(lines)) is not None:
                    await self._came.put(Came(command.stream, line))
        except Exception as failed:  # the operation looks at it
            error = failed
        await self._came.put(Came(command.stream, None, error))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class InThread:
    """An event loop in a thread of its own, for a program that blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="fleet streams")
        self._thread.start()

    def run(self, work: Awaitable[R]) -> R:
        async def awaited() -> R:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
