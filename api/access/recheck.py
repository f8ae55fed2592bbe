"""Streams end when the right to them does: a watch outlives the request that was authorised, often by hours.

One task for all open streams asks the same questions again, every few seconds: is the token still good, may its user
still act as whom the request named, may that user still do this. Streams that fail are told to end, as if their time
were over: the client comes back, and gets the 401 or 403 of a new request. The cost is that of the check of a request
for each stream and round, with a pause between slices.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import structlog

from api.engine.status import StatusError
from fleet.values.ports import StoreUnavailable

EVERY_S = 10.0  # between two looks at one stream: a right that is gone is noticed within this
SLICE = 100  # streams looked at before others get a turn
log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[None]]


class Rechecks:
    """The open streams and the right that each needs. Their checks raise StatusError when the right is gone."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._open: dict[asyncio.Event, Check] = {}
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watched(self, check: Check) -> Iterator[asyncio.Event]:
        """For as long as a stream is open: an event that is set when it must end."""
        over = asyncio.Event()
        self._open[over] = check
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="recheck-streams")
        try:
            yield over
        finally:
            self._open.pop(over, None)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        """Ends when nothing is open, so that an idle server has no task."""
        while self._open:
            await asyncio.sleep(self._every_s)
            for number, (over, check) in enumerate(list(self._open.items()), 1):
                if await self._is_over(check):
                    over.set()
                    self._open.pop(over, None)
                if number % SLICE == 0:
                    await asyncio.sleep(0)

    @staticmethod
    async def _is_over(check: Check) -> bool:
        try:
            await check()
        except StatusError as error:
            log.info("a stream ends: its right is gone", why=error.message[:200])
            return True
        except StoreUnavailable:
            return False  # what cannot be known now is asked again; new requests wait for the database as well
        except Exception:
            log.exception("the right to a stream cannot be checked")
            return True
        return False
