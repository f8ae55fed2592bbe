"""One open relay: bytes both ways, or those of a log, until it ends or has to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from api.transport.takenconnection import RawPipe
from fleet.relays.clients import MemberAnswer
from fleet.relays.places import RelayLimits

PIECE = 64 * 1024
log = structlog.get_logger(__name__)


class Carrier:
    """A relay between a client and a pod. Each direction waits for its reader. `ended` says why it has to end, as far
    as the hub itself knows; "" while it may go on."""

    def __init__(self, limits: RelayLimits, answer: MemberAnswer, pod: str, ended: Callable[[], str]) -> None:
        self._limits, self._answer, self._pod, self._ended = limits, answer, pod, ended
        self._clock = asyncio.get_running_loop().time
        self._moved = self._clock()

    async def both_ways(self, pipe: RawPipe) -> None:
        stream = self._answer.response.extensions["network_stream"]

        async def up() -> None:
            while data := await pipe.read():
                self._moved = self._clock()
                await stream.write(data)

        async def down() -> None:
            while data := await stream.read(PIECE):
                self._moved = self._clock()
                await pipe.write(data)

        await self._until_over(self._limits.idle_s, up(), down())

    async def log(self, send: Callable[[bytes], Awaitable[None]], *, follow: bool) -> None:
        """Raises ConnectionError where a log that is not followed ends before its end."""

        async def down() -> None:
            async for data in self._answer.response.aiter_raw():
                self._moved = self._clock()
                await send(data)

        why = await self._until_over(self._limits.idle_s if follow else self._limits.stalled_s, down())
        if why and not follow:
            raise ConnectionError(why)

    async def _until_over(self, idle_s: float, *ways: Coroutine[Any, Any, None]) -> str:
        """Until a way has ended, or the relay has to: why, or "" where a way came to its end."""
        carrying = [asyncio.create_task(way) for way in ways]
        looking = asyncio.create_task(self._look(idle_s))
        try:
            done, _ = await asyncio.wait((*carrying, looking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*carrying, looking):
                task.cancel()
            await asyncio.gather(*carrying, looking, return_exceptions=True)
        why = looking.result() if looking in done else ""
        errors = [error for task in carrying if task in done and (error := task.exception()) is not None]
        why = why or (f"{self._answer.member}: {str(errors[0]) or type(errors[0]).__name__}" if errors else "")
        if why:
            log.info("a relay to a pod ends", member=self._answer.member, pod=self._pod, why=why[:200])
        return why

    async def _look(self, idle_s: float) -> str:
        """Why the relay has to end, once it has to."""
        while True:
            pause = min(self._limits.look_s, max(0.0, self._moved + idle_s - self._clock()))
            await asyncio.sleep(pause)
            if self._clock() - self._moved >= idle_s:
                return f"nothing came for {idle_s:g} s"
            if why := self._ended():
                return why
