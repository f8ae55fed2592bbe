"""The recent end of the revision log, in memory, and the watches that read it.

Watchers hold a position in the log of their resource and no queue of their own: a hundred watchers of one resource cost
one list of events, and a watcher that stops reading costs nothing. The window is bounded by events and bytes. A reader
that has not read an event that fell out gets `ExpiredRevision`, unless the store can serve it from elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

from fleet.values.ports import Event, ExpiredRevision

# (group, resource, after this revision) -> the next of its events in order, and the revision up to which these are all
# there are. BoundedValues in size, and nearer to the present with every call. Raises ExpiredRevision.
Older = Callable[[str, str, int], Awaitable[tuple[Sequence[Event], int]]]

EVENT_OVERHEAD = 400  # bytes of objects around an event's body
CROWD = 20  # watches of one resource that wait: from here on they are not woken for each commit
PAUSE_S = 0.0001  # for each watch of a crowd, between two wakings: waking them takes about a fifth of it
PAUSE_MOST_S = 0.05
TRIM_CHUNK = 256  # a resource's list is cut in pieces of this size, so that cutting stays cheap per event


class ResourceLog:
    """Events of one (group, resource) that are still in memory; element i has the position `base` + i."""

    __slots__ = ("_later", "_woken", "base", "dropped", "events", "waiting")

    def __init__(self) -> None:
        self.base = 0
        self.dropped = 0  # at the front of `events`: out of the window, not yet cut off
        self.events: list[Event] = []
        self.waiting: set[asyncio.Future[None]] = set()
        self._woken = 0.0
        self._later: asyncio.TimerHandle | None = None

    @property
    def first(self) -> int:
        """Position of the oldest event that may still be read."""
        return self.base + self.dropped

    @property
    def end(self) -> int:
        return self.base + len(self.events)

    def at(self, position: int) -> Event:
        return self.events[position - self.base]

    def after(self, revision: int) -> int:
        """Position of the first event in the window newer than `revision`."""
        low, high = self.dropped, len(self.events)
        while low < high:
            middle = (low + high) // 2
            if self.events[middle].revision > revision:
                high = middle
            else:
                low = middle + 1
        return self.base + low

    def newer(self, revision: int) -> Iterator[Event]:
        """Its events in the window after `revision`."""
        return (self.at(position) for position in range(self.after(revision), self.end))

    def drop_first(self) -> None:
        self.dropped += 1
        if self.dropped >= TRIM_CHUNK or self.dropped == len(self.events):
            del self.events[: self.dropped]
            self.base += self.dropped
            self.dropped = 0

    def wake_soon(self) -> None:
        """Wake the watches: now, or a crowd of them a little later, for this commit and the next ones together."""
        if len(self.waiting) < CROWD:
            self.wake()
            return
        loop = asyncio.get_running_loop()
        now, pause = loop.time(), min(PAUSE_S * len(self.waiting), PAUSE_MOST_S)
        if now - self._woken >= pause:
            self._woken = now
            self.wake()
        elif self._later is None:
            self._later = loop.call_at(self._woken + pause, self._wake_late)

    def _wake_late(self) -> None:
        self._later = None
        self._woken = asyncio.get_running_loop().time()
        self.wake()

    def wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Log:
    """The window: every event after `floor` up to `revision`."""

    def __init__(self, revision: int, floor: int, *, max_events: int, max_bytes: int) -> None:
        self.revision = revision
        self.floor = floor
        self.era = 0  # grows when revisions went back (a restored backup): no watch lives on from before
        self._max_events, self._max_bytes = max_events, max_bytes
        self._window: deque[tuple[Event, int]] = deque()  # each with its size
        self._bytes = 0
        self._resources: dict[tuple[str, str], ResourceLog] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def resource(self, group: str, resource: str) -> ResourceLog:
        found = self._resources.get((group, resource))
        if found is None:
            found = self._resources[group, resource] = ResourceLog()
        return found

    def append(self, events: Sequence[Event]) -> None:
        """Add the next events, without a gap after `revision`, and wake the watchers that wait for them."""
        touched = set()
        for event in events:
            key = event.stored.key
            log = self.resource(key.group, key.resource)
            log.events.append(event)
            touched.add(log)
            size = len(event.stored.raw) + EVENT_OVERHEAD
            self._window.append((event, size))
            self._bytes += size
        if not events:
            return
        self.revision = events[-1].revision
        while len(self._window) > self._max_events or self._bytes > self._max_bytes:
            self._drop()
        for log in touched:
            log.wake_soon()
        if self._waiting:
            reached = [future for revision, future in self._waiting if revision <= self.revision]
            self._waiting = [entry for entry in self._waiting if entry[0] > self.revision]
            for future in reached:
                if not future.done():
                    future.set_result(None)

    def after(self, resources: Collection[tuple[str, str]], since: int, limit: int) -> tuple[Sequence[Event], int]:
        """ports.Store.events, as far as the window reaches. Raises ExpiredRevision."""
        if since < self.floor:
            raise ExpiredRevision(f"the log starts after revision {self.floor}")
        logs = [log for named in resources if (log := self._resources.get(named)) is not None]
        parts = [log.newer(since) for log in logs]
        found = list(islice(merge(*parts, key=attrgetter("revision")), limit))
        return found, found[-1].revision if len(found) == limit else self.revision

    def _drop(self) -> None:
        event, size = self._window.popleft()
        self._bytes -= size
        self.floor = event.revision
        self._resources[event.stored.key.group, event.stored.key.resource].drop_first()

    def forget(self, before: int) -> None:
        """Drop every event at or below the revision."""
        while self._window and self._window[0][0].revision <= before:
            self._drop()
        self.floor = max(self.floor, min(before, self.revision))

    def reset(self, revision: int) -> None:
        """Go on with an empty window from `revision`, to which the window so far does not lead."""
        while self._window:
            self._drop()
        for log in self._resources.values():
            log.base += 1  # a reader at the end has missed something
            log.wake()
        if revision < self.revision:
            self.era += 1
        self.revision = self.floor = revision

    async def reach(self, revision: int, timeout: float) -> bool:
        """Wait until the log has got to the revision."""
        if self.revision >= revision:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, future)
        self._waiting.append(entry)
        await wait(future, timeout)
        if entry in self._waiting:
            self._waiting.remove(entry)
        return self.revision >= revision


async def wait(future: asyncio.Future[None], timeout: float) -> None:
    """Wait for the future, at most `timeout` seconds. Afterwards the future is resolved either way."""
    timer = asyncio.get_running_loop().call_later(timeout, _resolve, future)
    try:
        await future
    finally:
        timer.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class LogWatch:
    """A position in one resource's log (ports.Watch). With `older`, events that fell out of memory are read there."""

    def __init__(
        self, log: Log, group: str, resource: str, namespace: str | None, since: int, older: Older | None = None
    ) -> None:
        self._log = log
        self._group, self._resource, self._namespace = group, resource, namespace
        self._events = log.resource(group, resource)
        self._older = older
        self._progress = since  # delivered up to here
        self._read = since  # taken from the log up to here; `_fetched` lies between the two
        self._fetched: deque[Event] = deque()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None  # of the wait under way, or the last one
        self._until = 0.0  # its end
        self._timer: asyncio.TimerHandle | None = None  # for many waits: making one for each costs more than the rest
        self._era = log.era
        self._position = -1 if since < log.floor else self._events.after(since)

    @property
    def progress(self) -> int:
        if not self._fetched and self._position == self._events.end:
            self._progress = max(self._progress, self._log.revision)
        return self._progress

    def ready(self) -> Event | None:
        while self._fetched:
            event = self._fetched.popleft()
            self._progress = event.revision
            if self._namespace is None or event.stored.key.namespace == self._namespace:
                return event
        events = self._events
        while events.first <= self._position < events.end:
            event = events.at(self._position)
            self._position += 1
            self._progress = self._read = event.revision
            if self._namespace is None or event.stored.key.namespace == self._namespace:
                return event
        return None

    async def _catch_up(self) -> None:
        """The window has moved past this watch: read the missing part elsewhere, or give up."""
        if self._older is None or self._era != self._log.era:
            raise ExpiredRevision(f"events after {self._read} are no longer kept")
        events, self._read = await self._older(self._group, self._resource, self._read)
        self._fetched.extend(events)
        self._position = self._events.after(self._read) if self._read >= self._log.floor else -1

    async def next(self, timeout: float) -> Event | None:
        until = self._loop.time() + timeout
        while not self._closed:
            event = self.ready()
            if event is not None:
                return event
            if self._position < self._events.first:
                await self._catch_up()
                continue
            if self._loop.time() >= until:
                return None
            await self._wait(until)
        return None

    async def _wait(self, until: float) -> None:
        """Wait for the next waking, or for the time."""
        self._until = until
        if self._timer is not None and self._timer.when() > until:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(until, self._timed)
        future = self._future = self._loop.create_future()
        self._events.waiting.add(future)
        try:
            await future
        finally:
            self._events.waiting.discard(future)

    def _timed(self) -> None:
        self._timer = None
        if self._future is None or self._future.done():
            return
        if self._loop.time() < self._until:
            self._timer = self._loop.call_at(self._until, self._timed)
        else:
            self._future.set_result(None)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while not self._closed:
            event = await self.next(60.0)
            if event is not None:
                yield event

    async def aclose(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._events.wake()
