"""Long work on the event loop, in slices: others have their turn after each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar

SLICE_S = 0.0005

T = TypeVar("T")


class Slice:
    """The slice under way: `if piece.over: await piece.next()` between two pieces of the work."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_S

    @property
    def over(self) -> bool:
        return perf_counter() > self._until

    async def next(self) -> None:
        """Wait for a round of the loop."""
        await asyncio.sleep(0)
        self._until = perf_counter() + SLICE_S


async def unhurried(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with a turn for others after each slice. For a loop that looks at all of them: one that is left early
    leaves this generator open."""
    piece = Slice()
    for item in items:
        yield item
        if piece.over:
            await piece.next()
