"""What every controller shares: a queue of keys, workers, back-off, and a clean end.

A controller is a function from a key to nothing: `reconcile(key)` compares what is stored with what should be and
mends the difference. It may be killed at any line and be called any number of times. Keys that fail come back after
a growing, bounded pause; the same key is never reconciled by two workers at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from fleet.ports import Event, EventType, Expired, Fenced, Key, Store, StoreUnavailable

log = structlog.get_logger(__name__)

Mapper = Callable[[Event], Iterable[Key]]

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 30.0
STORE_BACKOFF_MAX_S = 2.0  # while the store is away


def same_object(event: Event) -> Iterable[Key]:
    """The usual mapping: an event asks for the object that it is about."""
    return (event.stored.key,)


@dataclass(frozen=True, slots=True)
class Source:
    """Events of one resource, and the keys to look at for each."""

    group: str
    resource: str
    keys: Mapper = same_object


class Loop(Protocol):
    """Anything that the controllers' process runs until it is told to stop."""

    name: str

    async def run(self) -> None: ...


class WorkQueue:
    """Keys waiting to be reconciled: each at most once, not while a worker has it, failed ones after a pause."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, tuple[float, asyncio.TimerHandle]] = {}  # loop time, and what rings then

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
        # The time is kept beside the handle: what uvloop answers to less than half a millisecond does not know it.
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

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting)

    def idle(self) -> bool:
        return not (self._waiting or self._running or self._again)

    def close(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


class Controller:
    """Runs `reconcile` for every key that its sources name, with `workers` at once and a full pass every `resync_s`."""

    def __init__(
        self,
        name: str,
        store: Store,
        sources: Iterable[Source],
        reconcile: Callable[[Key], Awaitable[float | None]],
        *,
        workers: int = 4,
        resync_s: float = 300.0,
    ) -> None:
        """`reconcile` returns None, or the seconds after which it wants the key again."""
        self.name = name
        self.queue = WorkQueue()
        self.failures = 0  # of keys, since it was made; metrics read it
        self._store = store
        self._sources = tuple(sources)
        self._reconcile = reconcile
        self._workers = workers
        self._resync_s = resync_s
        self._group: asyncio.TaskGroup | None = None
        self._followed: dict[Source, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for source in self._sources:
                    group.create_task(self._follow(source), name=f"{self.name}:{source.resource}")
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}:{number}")
        finally:
            self._group = None
            self._followed.clear()
            self.queue.close()

    def follow_only(self, sources: Iterable[Source]) -> None:
        """Beside the sources it was made with, follow exactly these from now on. Only while it runs."""
        if self._group is None:
            return
        wanted = set(sources)
        for source in set(self._followed) - wanted:
            self._followed.pop(source).cancel()
        for source in wanted - set(self._followed):
            name = f"{self.name}:{source.resource}"
            self._followed[source] = self._group.create_task(self._follow(source), name=name)

    async def _follow(self, source: Source) -> None:
        """Feed the queue: everything there is, then every change; start over when the log no longer reaches back."""
        while True:
            try:
                page = await self._store.list(source.group, source.resource, fresh=True)
                for stored in page.items:
                    for key in source.keys(Event(stored.revision, EventType.ADDED, stored)):
                        self.queue.add(key)
                watch = await self._store.watch(source.group, source.resource, since=page.revision)
                try:
                    deadline = asyncio.get_running_loop().time() + self._resync_s
                    while (left := deadline - asyncio.get_running_loop().time()) > 0:
                        event = await watch.next(timeout=left)
                        if event is not None:
                            for key in source.keys(event):
                                self.queue.add(key)
                finally:
                    await watch.aclose()
            except Expired:
                log.info("watch expired, listing again", controller=self.name, resource=source.resource)
            except StoreUnavailable as error:
                log.warning("store unavailable", controller=self.name, error=str(error))
                await asyncio.sleep(1.0)

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                again = await self._reconcile(key)
            except (asyncio.CancelledError, Fenced):
                raise
            except Exception as error:
                unexpected = not isinstance(error, StoreUnavailable)
                # A store that is back should find everybody at work soon, however long it was away.
                self.failures += 1
                pause = self.queue.failed(key, BACKOFF_MAX_S if unexpected else STORE_BACKOFF_MAX_S)
                log.warning(
                    "reconcile failed",
                    controller=self.name,
                    key=str(key),
                    error=repr(error),
                    again_in_s=round(pause, 2),
                    exc_info=unexpected,
                )
            else:
                self.queue.done(key)
                if again is not None:
                    self.queue.add_after(key, again)


async def run_all(loops: Iterable[Loop], stop: asyncio.Event) -> None:
    """Run every loop until `stop` is set or one of them ends with an error, which is raised (Fenced among them)."""
    tasks = [asyncio.create_task(loop.run(), name=loop.name) for loop in loops]
    stopper = asyncio.create_task(stop.wait(), name="stop")
    try:
        done, _ = await asyncio.wait([*tasks, stopper], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task is not stopper:
                task.result()
    finally:
        for task in (*tasks, stopper):
            task.cancel()
        for task in (*tasks, stopper):
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
