"""Time that jumps: an event loop on which nothing is ever waited for, and the clock that goes with it.

When nothing is ready the loop goes to its next timer at once. While work runs in a thread (a decision) time stands
still, so no timer fires early; everything else happens in the order in which it would. So the real loops of a hub live
through weeks in minutes. The loop is for programs that wait for timers and for each other only: a program that waits
for a socket would run into its time-out before the answer is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
THREAD_POLL_S = 0.0005


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping for `timeout`, moves the loop's time by it."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        if self.loop.in_threads:
            return super().select(THREAD_POLL_S)
        found = super().select(0)
        if not found and timeout is not None and timeout > 0:
            self.loop.ahead_s += timeout
        if not found and timeout is None:
            return super().select(None)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time begins at zero."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.in_threads = 0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.ahead_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _: Any) -> None:
        self.in_threads -= 1


class VirtualClock:
    """fleet.values.ports.Clock over the running loop's time, for its threads too: while they work it stands still."""

    def __init__(self, epoch: float) -> None:
        """`epoch`: the epoch second at the loop's time zero."""
        self._epoch = epoch
        self._loop: asyncio.AbstractEventLoop | None = None

    def now(self) -> float:
        return self._epoch + self.monotonic()

    def monotonic(self) -> float:
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        if self._loop is None:
            raise RuntimeError("no loop has asked this clock yet")
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
