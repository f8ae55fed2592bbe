"""The queue of a controller: keys that wait for a worker, failed keys, and the time of their next try."""

from __future__ import annotations

import asyncio
import random

from fleet.values.ports import Key

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 30.0
ASIDE_CHANGED_S = 1.0  # to the next look at a key that is set aside and changed while it failed


class WorkQueue:
    """Keys waiting to be reconciled: each at most once, not while a worker has it, failed ones after a pause."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, tuple[float, asyncio.TimerHandle]] = {}  # loop time, and the callback at that time

    def add(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at the key again in `seconds`; an earlier `add` replaces the timer, a nearer timer stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= at:
                return
            timer[1].cancel()
        # The time is kept beside the handle: uvloop's own answer does not know less than half a millisecond.
        self._timers[key] = (at, loop.call_later(seconds, self.add, key))

    async def take(self) -> Key:
        key = await self._ready.get()
        self._waiting.discard(key)
        self._running.add(key)
        return key

    def done(self, key: Key) -> None:
        self._running.discard(key)
        self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def failed(self, key: Key, at_most_s: float = BACKOFF_MAX_S) -> float:
        """Put the key back after a pause, which is returned in seconds."""
        self._running.discard(key)
        self._again.discard(key)
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(at_most_s, BACKOFF_FIRST_S * 2.0 ** min(count - 1, 12)) * random.uniform(0.8, 1.2)
        self.add_after(key, pause)
        return pause

    def set_aside(self, key: Key, seconds: float) -> float:
        """As `failed`, after `seconds`, or soon when it changed meanwhile; the pause is returned."""
        self._running.discard(key)
        pause = min(seconds, ASIDE_CHANGED_S) if key in self._again else seconds * random.uniform(0.9, 1.1)
        self._again.discard(key)
        self.add_after(key, pause)
        return pause

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting)

    def idle(self) -> bool:
        return not (self._waiting or self._running or self._again)

    def close(self) -> None:
        """Stop the timers. Keys that workers had or timers held wait again, for a loop that is started again."""
        for _, timer in self._timers.values():
            timer.cancel()
        left = [*self._running, *self._timers]
        self._timers.clear()
        self._running.clear()
        self._again.clear()
        for key in left:
            self.add(key)
