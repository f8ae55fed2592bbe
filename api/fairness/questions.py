"""Turns for questions that take seconds of processor time: what-if, check, explain.

The rule of seats and turns (scheduler.py) with few seats: each user is a flow, and no flow takes more seats than it
leaves free. So a user who asks for the first time waits for nobody's loops.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.engine.status import StatusError
from api.fairness.scheduler import Flow, Limits, Scheduler, WaitingStep

SEATS = 2  # answered at once: each has a thread beside the event loop
OF_USER, OF_ALL = 4, 64  # questions that wait
WAIT_S = 60.0  # for a turn; then the question is refused
ESTIMATE_S = 1.0  # of a question whose time is not known yet
_NAME = "questions"


class Questions:
    """The turns of one process."""

    def __init__(self) -> None:
        self._scheduler = Scheduler(SEATS)
        limits = Limits(1, queues=OF_ALL // OF_USER, queue_length=OF_USER)
        self._scheduler.configure({_NAME: ("", limits)})
        self._level = self._scheduler.levels[_NAME]

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for the turn of this user. StatusError 429 where too many questions wait, or this one has waited too
        long."""
        flow = self._level.flow(user)
        await self._wait(flow)
        began = time.monotonic()
        try:
            yield
        finally:
            self._scheduler.charge(self._level, flow, time.monotonic() - began - ESTIMATE_S)
            self._leave(flow)

    async def _wait(self, flow: Flow) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        step = WaitingStep(self._level, flow, 1, ESTIMATE_S, time.monotonic(), False, turn)
        if not self._scheduler.wait(step):
            whose = "your" if len(flow.arrived) >= OF_USER else "other"
            raise _refused(f"{whose} questions are being answered")
        self._go_on()
        try:
            async with asyncio.timeout(WAIT_S):
                await turn
        except TimeoutError:
            raise _refused("other questions take too long") from None
        finally:
            if turn.cancelled():
                self._scheduler.drop(step)

    def _leave(self, flow: Flow) -> None:
        self._scheduler.leave(self._level, flow, 1)
        self._go_on()

    def _go_on(self) -> None:
        while (step := self._scheduler.next()) is not None:
            if step.owner.done():  # whoever asked has gone
                self._scheduler.leave(step.level, step.flow, step.seats)
            else:
                step.owner.set_result(None)


def _refused(why: str) -> StatusError:
    return StatusError(429, "TooManyRequests", f"{why}; ask again", retry_after_s=1)
