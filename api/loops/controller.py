"""The shared part of every controller: a queue of keys, workers, back-off, and a clean end.

A controller is a function from a key to nothing: `reconcile(key)` compares the stored state with the wanted one and
mends the difference. A call may be killed at any line and be repeated any number of times. Keys that fail come back
after a growing, bounded pause; the same key is never reconciled by two workers at once.

A failure costs itself alone. A key that keeps failing is set aside: a worker looks at it every ASIDE_S and when its
object changes, and the object says so (`Teller`). An object that a source cannot map to keys is set aside in the same
way. A loop that ends with an exception is started again, after a growing pause. Only lost leadership ends them all.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from api.engine.status import StatusError
from api.loops.workqueue import WorkQueue
from fleet.values.ports import Event, EventType, ExpiredRevision, Key, StaleEpoch, Store, StoredObject, StoreUnavailable

log = structlog.get_logger(__name__)

Mapper = Callable[[Event], Iterable[Key]]

STORE_BACKOFF_MAX_S = 2.0  # while the store is away
ASIDE_AFTER = 5  # exceptions in a row; then the key is set aside
ASIDE_S = 300.0  # between two looks at a key that is set aside and does not change
RESTART_FIRST_S = 0.5  # before a loop that ended, or a source that failed, is started again
RESTART_MAX_S = 30.0
CANCEL_AGAIN_S = 1.0
RAN_WELL_S = 60.0  # a loop that ran for so long begins with the first pause again
FAILURES_KNOWN_MAX = 200  # kinds of failure of one loop that were logged with their trace
ERROR_TEXT_MAX = 1000  # characters of one error in the log
RACES = (408, 409, 410, 429, 503, 504)  # codes of a StatusError that say nothing of the object


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
    """A task that the controllers' process runs until it is told to stop."""

    name: str

    async def run(self) -> None: ...


class Teller(Protocol):
    """Tells of objects that a loop cannot handle; aside.py has it."""

    async def tell(self, loop: str, key: Key, error: Exception) -> None:
        """Say on the object, once, that the loop cannot handle it."""
        ...

    async def handled(self, loop: str, key: Key) -> None:
        """Take back what was said of it for this loop."""
        ...

    def told(self, loop: str, stored: StoredObject) -> bool:
        """Whether the object says so of this loop."""
        ...

    def about(self, key: Key) -> dict[str, str]:
        """What a line of the log about this key says beside it. Raises nothing."""
        ...


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
        self.last_error = ""  # with its key
        self.teller: Teller | None = None
        self._store = store
        self._sources = tuple(sources)
        self._reconcile = reconcile
        self._workers = workers
        self._resync_s = resync_s
        self._group: asyncio.TaskGroup | None = None
        self._followed: dict[Source, asyncio.Task[None]] = {}
        self._in_a_row: dict[Key, int] = {}  # exceptions
        self._aside: set[Key] = set()
        self._unmapped: set[Key] = set()  # objects
        self._told: set[Key] = set()  # objects that say so since before this process, or this loop, began
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    @property
    def aside(self) -> frozenset[Key]:
        """Keys that are set aside, and objects that cannot be mapped to keys."""
        return frozenset(self._aside | self._unmapped)

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
        pause = RESTART_FIRST_S
        while True:
            try:
                await self._follow_once(source)
                pause = RESTART_FIRST_S
            except ExpiredRevision:
                log.info("watch expired, listing again", controller=self.name, resource=source.resource)
            except StoreUnavailable as error:
                log.warning("store unavailable", controller=self.name, error=str(error))
                await asyncio.sleep(1.0)
            except StaleEpoch:
                raise
            except Exception as error:
                self._count(source.resource, error)
                log.error(
                    "a source failed, listing again",
                    controller=self.name,
                    resource=source.resource,
                    again_in_s=pause,
                    exc_info=error,
                )
                await asyncio.sleep(pause)
                pause = min(RESTART_MAX_S, 2 * pause)

    async def _follow_once(self, source: Source) -> None:
        """Until it is time for a full pass."""
        page = await self._store.list(source.group, source.resource, fresh=True)
        for stored in page.items:
            if self.teller is not None and self.teller.told(self.name, stored):
                self._told.add(stored.key)
            await self._map(source, Event(stored.revision, EventType.ADDED, stored))
        watch = await self._store.watch(source.group, source.resource, since=page.revision)
        try:
            deadline = asyncio.get_running_loop().time() + self._resync_s
            while (left := deadline - asyncio.get_running_loop().time()) > 0:
                event = await watch.next(timeout=left)
                if event is not None:
                    await self._map(source, event)
        finally:
            await watch.aclose()

    async def _map(self, source: Source, event: Event) -> None:
        """Put the keys of the event into the queue. An event that cannot be mapped is reported, and costs itself alone.
        The next change of its object, and the next full pass, try again."""
        key, own = event.stored.key, False
        try:
            for wanted in source.keys(event):
                own = own or wanted == key
                self.queue.add(wanted)
        except Exception as error:
            self._count(key, error)
            self._log(key, error, "an object cannot be mapped to keys")
            if event.type is not EventType.DELETED:
                self._unmapped.add(key)
                await self._tell(key, error)
                return
        if event.type is EventType.DELETED:
            for known in (self._unmapped, self._told):
                known.discard(key)
        elif key in self._unmapped or key in self._told:
            self._unmapped.discard(key)
            if not own and key not in self._aside:  # no worker will have it
                await self._take_back(key)

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                again = await self._reconcile(key)
            except (asyncio.CancelledError, StaleEpoch):
                raise
            except Exception as error:
                self._count(key, error)
                await self._failed(key, error)
            else:
                if self._in_a_row or self._told:
                    await self._succeeded(key)
                self.queue.done(key)
                if again is not None:
                    self.queue.add_after(key, again)

    async def _failed(self, key: Key, error: Exception) -> None:
        """Have the key tried again: soon, or when it failed too often, late."""
        if isinstance(error, StoreUnavailable):
            # A store that is back should find all loops at work soon, however long it was away.
            pause = self.queue.failed(key, STORE_BACKOFF_MAX_S)
            again = round(pause, 2)
            log.warning("store unavailable", controller=self.name, key=str(key), again_in_s=again, error=str(error))
            return
        if isinstance(error, StatusError) and error.code in RACES:
            pause = self.queue.failed(key)
            log.info("lost to another writer", controller=self.name, key=str(key), again_in_s=round(pause, 2))
            return
        self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
        # A key that is no object (one piece of work for all, such as a decision) is never set aside.
        if self._in_a_row[key] < ASIDE_AFTER or self._store.peek(key) is None:
            self._log(key, error, "reconcile failed", again_in_s=round(self.queue.failed(key), 2))
            return
        if key not in self._aside:
            self._aside.add(key)
            log.error(
                "set aside",
                controller=self.name,
                key=str(key),
                error=repr(error),
                again_in_s=ASIDE_S,
                **self._about(key),
            )
        await self._tell(key, error)
        self.queue.set_aside(key, ASIDE_S)

    def _count(self, what: object, error: Exception) -> None:
        self.failures += 1
        said = str(error) if isinstance(error, StoreUnavailable) else repr(error)  # the former is a sentence for people
        self.last_error = f"{what}: {said}"[:ERROR_TEXT_MAX]

    async def _succeeded(self, key: Key) -> None:
        self._in_a_row.pop(key, None)
        if (key in self._aside or key in self._told) and key not in self._unmapped:
            self._aside.discard(key)
            await self._take_back(key)

    def _about(self, key: Key) -> dict[str, str]:
        return self.teller.about(key) if self.teller is not None else {}

    async def _tell(self, key: Key, error: Exception) -> None:
        if self.teller is not None:
            self._told.add(key)
            await self.teller.tell(self.name, key, error)

    async def _take_back(self, key: Key) -> None:
        self._told.discard(key)
        if self.teller is not None:
            await self.teller.handled(self.name, key)

    def _log(self, key: Key, error: Exception, what: str, **more: object) -> None:
        """With its trace when the loop meets this kind of failure for the first time."""
        frames = traceback.extract_tb(error.__traceback__)
        kind = (type(error).__name__, f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "")
        new = kind not in self._logged
        self._logged[kind] = None
        while len(self._logged) > FAILURES_KNOWN_MAX:
            self._logged.popitem(last=False)
        log.warning(
            what,
            controller=self.name,
            key=str(key),
            error=repr(error)[:ERROR_TEXT_MAX],
            exc_info=new and error,
            **{**self._about(key), **more},
        )


async def run_all(loops: Iterable[Loop], stop: asyncio.Event, ended: Callable[[str], object] | None = None) -> None:
    """Run every loop until `stop` is set. A loop that ends by itself is started again, alone; `ended` is told its name.
    Raises StaleEpoch when a loop meets it: a process that leads no more has no loop to start again. When this returns
    or raises, all of them have ended."""
    tasks = [asyncio.create_task(_keep(loop, ended), name=loop.name) for loop in loops]
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
            await cancelled(task)


async def _keep(loop: Loop, ended: Callable[[str], object] | None) -> None:
    """Run the loop again and again. Raises StaleEpoch."""
    pause, clock = RESTART_FIRST_S, asyncio.get_running_loop().time
    while True:
        began, why = clock(), None
        try:
            await loop.run()
        except Exception as error:
            if _fenced(error):
                raise StaleEpoch(f"the loop {loop.name} leads no more") from error
            why = error
        if ended is not None:
            ended(loop.name)
        pause = RESTART_FIRST_S if clock() - began >= RAN_WELL_S else pause
        log.error("a loop ended and is started again", loop=loop.name, again_in_s=pause, exc_info=why)
        await asyncio.sleep(pause)
        pause = min(RESTART_MAX_S, 2 * pause)


def _fenced(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_fenced(one) for one in error.exceptions)
    return isinstance(error, StaleEpoch)


async def cancelled(task: asyncio.Task[Any] | None) -> None:
    """Return when the task, if there is one, has ended. A task that is cancelled in the very moment in which it catches
    another exception goes on, so it is cancelled again."""
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
    if task is not None and not task.cancelled():
        task.exception()  # has been looked at
