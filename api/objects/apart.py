"""Work that would hold the event loop: done in one thread, in turn.

Large bodies are legal, and reading or checking one takes up to a few seconds. Requests of others go on meanwhile beside
one such thread; beside many they would not, since threads share one interpreter. Work there must not look at state that
other code changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from api.engine.rules import AT_ONCE, CostlyWrite
from api.engine.status import StatusError

LARGE_BYTES = 64 * 1024  # of a body or a stored object: below it the work takes some tens of milliseconds at most
WAITING_MAX = 64  # each may hold a body of 3 MiB; more are told to come again

T = TypeVar("T")
_thread = ThreadPoolExecutor(1, "large-bodies")
_waiting = 0


def at_once(work: Callable[..., T], *arguments: object) -> T:
    """The result of `work(*arguments)`, on the event loop. CostlyWrite when rules of a schema cost too much there."""
    token = AT_ONCE.set(True)
    try:
        return work(*arguments)
    finally:
        AT_ONCE.reset(token)


async def apart_if(large: bool, work: Callable[..., T], *arguments: object) -> T:
    """The same, apart when it is `large` or turns out to take long. `work` may be done twice."""
    if not large:
        try:
            return at_once(work, *arguments)
        except CostlyWrite:
            pass
    return await apart(work, *arguments)


async def apart(work: Callable[..., T], *arguments: object) -> T:
    """The result of `work(*arguments)`, or its exception. StatusError 429 when too many wait for the thread."""
    global _waiting
    if _waiting >= WAITING_MAX:
        raise StatusError(429, "TooManyRequests", "too many large requests at once, please try again", retry_after_s=1)
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_thread, work, *arguments)
    finally:
        _waiting -= 1
