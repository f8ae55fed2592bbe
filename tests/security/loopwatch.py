"""How long an event loop was held: the processor time of each of its steps, whatever else the machine does."""

from __future__ import annotations

import asyncio.events
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Steps:
    longest_s: float = 0.0


@contextmanager
def watched() -> Iterator[Steps]:
    """The longest step of this thread's asyncio loop from here on. (uvloop's cannot be seen.)"""
    steps = Steps()
    run = asyncio.events.Handle._run

    def timed(self: asyncio.events.Handle) -> Any:
        began = time.thread_time()
        try:
            return run(self)
        finally:
            steps.longest_s = max(steps.longest_s, time.thread_time() - began)

    asyncio.events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]
