"""An event loop whose time jumps: when nothing is ready it goes to the next timer at once instead of waiting for it.

While work runs in a thread (a decision), time stands still, so no timer fires early; everything else happens in the
order in which it would, and a test of five minutes takes milliseconds.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

EPOCH = 1_750_000_000.0  # what the tests' clock shows when a loop starts
THREAD_POLL_S = 0.0005


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Instead of sleeping for `timeout`, moves the loop's time by it."""

    loop: FastLoop

    def select(self, timeout: float | None = None) -> Any:
        if self.loop.in_threads:
            return super().select(THREAD_POLL_S)
        found = super().select(0)
        if not found and timeout is not None and timeout > 0:
            self.loop.ahead_s += timeout
        if not found and timeout is None:
            return super().select(None)
        return found


class FastLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.in_threads = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.ahead_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _: Any) -> None:
        self.in_threads -= 1


class LoopClock:
    """fleet.ports.Clock over the running loop's time."""

    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def eventually(condition: Callable[[], Any], *, within_s: float = 20.0, what: str = "") -> Any:
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
