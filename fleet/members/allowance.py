"""The most that one member may cost the hub: memory for what is kept of it, and time on the event loop.

A member chooses how many objects it shows, how large they are and how often they change. Above the memory it counts as
unreachable (member.py). Above its share of the loop's time it is read later, so that the others do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from time import perf_counter
from typing import Any

from api.slices import SLICE_S

BYTES_MAX = 1 << 30  # as `weight` counts
OBJECTS_MAX = 1_000_000
SHARE = 0.2  # of the event loop's time, for one member that wants more
BURST_S = 10.0  # of the loop's time before that counts: the first lists of a large member


class TooMuch(Exception):
    """The member shows more than the hub keeps of one; the text says how much that is."""


def weight(value: Any) -> int:
    """About how many bytes of memory the value takes, of dicts, lists, tuples, texts and numbers."""
    total, rest = 0, list[Iterable[Any]]([(value,)])
    while rest:
        for item in rest.pop():
            if item.__class__ is str:
                total += 50 + len(item)
            elif item.__class__ is dict:
                total += 64 + 100 * len(item) + sum(map(len, item))
                rest.append(item.values())
            elif item.__class__ is list or item.__class__ is tuple:
                total += 56 + 8 * len(item)
                rest.append(item)
            else:
                total += 32
    return total


class MemberMemory:
    """The bytes and objects that are kept of one member."""

    def __init__(self, bytes_max: int = BYTES_MAX, objects_max: int = OBJECTS_MAX) -> None:
        self._bytes_max, self._objects_max = bytes_max, objects_max
        self._sizes: dict[Hashable, int] = {}
        self.bytes = 0

    def put(self, of: Hashable, size: int) -> None:
        """So many bytes are kept of this object now. Raises TooMuch."""
        self.bytes += size - self._sizes.get(of, 0)
        self._sizes[of] = size
        if self.bytes > self._bytes_max:
            raise TooMuch(f"its objects take more than the {self._bytes_max >> 20} MiB that the hub keeps of a member")
        if len(self._sizes) > self._objects_max:
            raise TooMuch(f"it shows more than the {self._objects_max} objects that the hub keeps of a member")

    def drop(self, of: Hashable) -> None:
        self.bytes -= self._sizes.pop(of, 0)


class LoopTime:
    """The time on the event loop that the objects of one member take."""

    def __init__(
        self,
        share: float = SHARE,
        burst_s: float = BURST_S,
        *,
        now: Callable[[], float] = perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._share, self._burst_s, self._now, self._sleep = share, burst_s, now, sleep
        self._budget_s, self._at = burst_s, now()

    def work(self) -> LoopWork:
        """A piece of work that begins now."""
        return LoopWork(self, self._now)

    async def spend(self, seconds: float) -> None:
        """Note this time, and give others a turn: a long one where the member is beyond its share."""
        now = self._now()
        self._budget_s = min(self._burst_s, self._budget_s + (now - self._at) * self._share) - seconds
        self._at = now
        await self._sleep(max(0.0, -self._budget_s / self._share))


class LoopWork:
    """Work on the loop without a wait in it: `turn` between two steps of it, `end` after the last."""

    __slots__ = ("_began", "_now", "_time")

    def __init__(self, time: LoopTime, now: Callable[[], float]) -> None:
        self._time, self._now, self._began = time, now, now()

    async def turn(self) -> None:
        if self._now() - self._began > SLICE_S:
            await self.end()
            self._began = self._now()

    async def end(self) -> None:
        await self._time.spend(self._now() - self._began)
