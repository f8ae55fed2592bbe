"""The changes of jobs in the order of the log, each with how its job stood after that very change.

How a job stands is concluded from the job, its ResourceBinding and its QueueUnit. One task of the process replays the
log over a table of these objects, for all readers. So a state that lasted for a moment is told as well, and a reader
costs what its lines cost. The table has references alone, and exists while somebody reads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from api.engine.kind import Kind
from api.slices import unhurried
from fleet.bindings import binding as b
from fleet.bindings.heartbeat import silence_of
from fleet.bindings.unit import queue_of
from fleet.rest.context import RestHub
from fleet.rest.line import BINDINGS, UNITS, Line, Lines, binding_key, queue_paths
from fleet.rest.standing import StoredJob, row, unreadable
from fleet.rest.storedjob import stands
from fleet.rest.targets import job_kinds
from fleet.values.ports import Body, Event, EventType, ExpiredRevision, Key, StoredObject, StoreUnavailable
from fleet.values.untyped import text

LOOK_S = 0.1  # between two looks at the log
EVENTS_MAX = 5_000  # of one look
BACKLOG = 5_000  # changes that a reader has not taken yet; one with more has to start again
PATHS_S = 5.0  # between two readings of all Queues, where a unit names one that is not known
LINGER_S = 60.0  # for which the table is kept without a reader
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """How a job stands after a change. `job` None: it is gone. `document`: the same as JSON; `unit`: key and uid of its
    unit."""

    revision: int
    kind: Kind
    key: Key
    uid: str
    job: StoredJob | None = None
    document: bytes = b""
    position: int | None = None

    @property
    def unit(self) -> tuple[Key, str]:
        metadata = self.job.unit["metadata"] if self.job is not None and self.job.unit is not None else {}
        return Key(*UNITS, self.key.namespace, str(metadata.get("name"))), str(metadata.get("uid"))


@dataclass(eq=False)
class ChangeReader:
    """One who reads all changes. `lost`: some have passed that it was not told of."""

    waiting: deque[JobEvent] = field(default_factory=deque)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False

    def offer(self, event: JobEvent) -> None:
        self.waiting.append(event)
        if len(self.waiting) > BACKLOG:
            self.lose()
        self.woken.set()

    def lose(self) -> None:
        self.lost = True
        self.waiting.clear()
        self.woken.set()


class JobEvents:
    """The changes of one store. `at`: the revision up to which they are told."""

    def __init__(self, hub: RestHub, lines: Lines) -> None:
        self._hub, self._store, self.lines = hub, hub.store, lines
        self.at = -1
        self._known: dict[Key, StoredObject] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._paths: dict[str, str] = {}
        self._paths_until = 0.0
        self._readers: set[ChangeReader] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()

    @contextmanager
    def reading(self) -> Iterator[ChangeReader]:
        """A reader of the changes from now on."""
        reader = ChangeReader()
        self._readers.add(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(), name="job events")
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    async def current(self) -> None:
        """Take in all that was committed before the call."""
        revision = await self._store.revision()
        async with self._looking:
            while self.at < revision:
                await self._look()

    async def now(
        self, kind: Kind, namespace: str | None, names: Collection[str], asked_for: Callable[[Body], bool] | None
    ) -> AsyncIterator[JobEvent]:
        """How the jobs of a kind stand, each as after all changes up to its `revision`. `names`: only these; none: all.
        `asked_for`: of the body of a job."""
        line = await self.lines.at(self.at)
        if names and namespace is not None:
            keys: Iterable[Key] = (Key(kind.group, kind.resource, namespace, name) for name in names)
        else:
            found = self._store.scan(kind.group, kind.resource, namespace=namespace)
            keys = (stored.key for stored in found if not names or stored.key.name in names)
        async for key in unhurried(keys):
            stored = self._known.get(key)
            if stored is not None and (asked_for is None or asked_for(stored.body)):
                told = self.event_of(kind, key, line)
                if told is not None:
                    yield told

    async def since(self, revision: int) -> list[JobEvent]:
        """How the jobs stand that have changed after the revision, the gone ones first. Raises ExpiredRevision."""
        if revision > self.at:
            raise ExpiredRevision("the revisions have gone back")
        events, _ = await self._store.events([*self._kinds, BINDINGS, UNITS], since=revision, limit=EVENTS_MAX)
        if len(events) == EVENTS_MAX:
            raise ExpiredRevision("too much has changed")
        deletions = [
            JobEvent(event.revision, kind, event.stored.key, event.stored.uid)
            for event in events
            if event.type is EventType.DELETED and (kind := self._kinds.get(event.stored.key[:2])) is not None
        ]
        line = await self.lines.at(self.at)
        changed = dict.fromkeys(found for event in events if (found := self._job_of(event.stored)) is not None)
        told = (self.event_of(self._kinds[key[:2]], key, line) for key in changed)
        return [*deletions, *(event for event in told if event is not None)]

    def event_of(self, kind: Kind, key: Key, line: Line) -> JobEvent | None:
        """How a job stands; None for one that is not there."""
        stored = self._known.get(key)
        if stored is None:
            return None
        try:
            job = self._stands(kind, stored)
            shown: dict[str, Any] = row(job, line.position(job.unit))
            return JobEvent(self.at, kind, key, stored.uid, job, orjson.dumps(shown), shown["position"])
        except Exception:  # it costs itself its row, and the others nothing
            return JobEvent(
                self.at, kind, key, stored.uid, StoredJob(kind, stored.body), orjson.dumps(unreadable(kind, key))
            )

    def _stands(self, kind: Kind, stored: StoredObject) -> StoredJob:
        now = asyncio.get_running_loop().time()
        silence = silence_of(self._store, self._hub.objects.clock.now()) or ""
        job = stands(self._store, kind, stored.body, stored.uid, self._paths, silence, self._known.get)
        queue = queue_of(job.unit) if job.unit is not None else ""
        if queue and queue not in self._paths and now >= self._paths_until:
            self._paths, self._paths_until = queue_paths(self._store), now + PATHS_S
            job = stands(self._store, kind, stored.body, stored.uid, self._paths, silence, self._known.get)
        return job

    async def _follow(self) -> None:
        """Ends a while after the last reader has gone."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LINGER_S
        while self._readers or loop.time() < until:
            try:
                async with self._looking:
                    await self._look()
            except StoreUnavailable:
                pass  # the next look finds the same
            except Exception:
                log.exception("changes of jobs cannot be read")
                self._lose()
                self.at = -1
            if self._readers:
                until = loop.time() + LINGER_S
            await asyncio.sleep(LOOK_S)
        self.at, self._known = -1, {}

    async def _look(self) -> None:
        """Tell of what has happened since the last look, or begin anew."""
        kinds = {(kind.group, kind.resource): kind for kind in job_kinds(self._hub.registry)}
        try:
            if self.at < 0 or kinds.keys() != self._kinds.keys():
                raise ExpiredRevision("nothing is known")
            events, upto = await self._store.events([*kinds, BINDINGS, UNITS], since=self.at, limit=EVENTS_MAX)
        except ExpiredRevision:
            await self._begin(kinds)
            return
        line = await self.lines.at(upto) if events else Line()
        async for event in unhurried(events):
            self._take(event, line)
        self.at = upto

    async def _begin(self, kinds: dict[tuple[str, str], Kind]) -> None:
        at = await self._store.revision()
        known = {}
        for resource in (*kinds, BINDINGS, UNITS):
            async for stored in unhurried(self._store.scan(*resource)):
                known[stored.key] = stored
        self._kinds, self._known = kinds, known
        if self.at >= 0:
            self._lose()
        self.at = at

    def _lose(self) -> None:
        for reader in self._readers:
            reader.lose()

    def _take(self, event: Event, line: Line) -> None:
        stored = event.stored
        before = self._known.get(stored.key)
        if before is not None and before.revision >= event.revision:  # the table was made after it
            self.at = event.revision
            return
        if event.type is EventType.DELETED:
            self._known.pop(stored.key, None)
        else:
            self._known[stored.key] = stored
        self.at = event.revision
        key = self._job_of(stored) if self._readers else None
        if key is None:
            return
        kind = self._kinds[key[:2]]
        if event.type is EventType.DELETED and key == stored.key:
            told: JobEvent | None = JobEvent(event.revision, kind, key, stored.uid)
        else:
            told = self.event_of(kind, key, line)
        if told is not None:
            for reader in self._readers:
                reader.offer(told)

    def _job_of(self, stored: StoredObject) -> Key | None:
        """The job that an object is, or belongs to."""
        if stored.key[:2] in self._kinds:
            return stored.key
        binding = stored if stored.key[:2] == BINDINGS else self._known.get(binding_key(stored.key))
        if binding is None:
            return None
        resource = b.resource_of(binding.body)
        kind = self._hub.registry.kind_of(text(resource.get("apiVersion")), text(resource.get("kind")))
        if kind is None or (kind.group, kind.resource) not in self._kinds:
            return None
        return Key(kind.group, kind.resource, binding.key.namespace, text(resource.get("name")))
