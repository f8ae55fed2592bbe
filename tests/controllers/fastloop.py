"""The virtual event loop of fleet/simulate/virtual.py for tests: five minutes take milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fleet.simulate.virtual import VirtualClock
from fleet.simulate.virtual import VirtualLoop as FastLoop

EPOCH = 1_750_000_000.0  # what the tests' clock shows when a loop starts


class LoopClock(VirtualClock):
    """fleet.values.ports.Clock over the running loop's time."""

    def __init__(self) -> None:
        super().__init__(EPOCH)


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
async def eventually(condition: Callable[..., Any], *, within_s: float = 20.0, what: str = "") -> Any:
    """The first true value of `condition`, looked at every 10 ms of the loop's time; fails after `within_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        found = condition()
        if found:
            return found
        assert loop.time() < deadline, f"not within {within_s} s: {what or condition}"
        await asyncio.sleep(0.01)


async def settle(seconds: float = 3.0) -> None:
    """Let everything that is due within `seconds` of the loop's time happen (for showing that something does NOT)."""
    await asyncio.sleep(seconds)


__all__ = ["EPOCH", "FastLoop", "LoopClock", "eventually", "settle"]
