"""The store in memory: for tests, and for simulated members with many thousands of pods.

The meaning is that of the PostgreSQL store (one contract suite, one `evaluate`), and nothing is kept when the process
ends. A commit never waits, since it is evaluated and applied between two turns of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from api.store.evaluate import evaluate
from api.store.log import Log, LogWatch
from api.store.view import View
from fleet.values.ports import (
    Clock,
    CommitResult,
    Conflict,
    Event,
    ExpiredRevision,
    FutureRevision,
    Key,
    Page,
    Selector,
    StaleEpoch,
    Stats,
    StoredObject,
    Write,
)

FIRST_REVISION = 1  # of an empty store: a resourceVersion is never 0
FUTURE_WAIT_S = 3.0  # how long a reader waits for a revision that has not happened
MAX_EVENTS = 50_000
MAX_LOG_BYTES = 64 << 20
HISTORY_BYTES = 64 << 20


class MemoryStore:
    """ports.Store in this process's memory."""

    def __init__(
        self,
        clock: Clock,
        *,
        max_events: int = MAX_EVENTS,
        max_log_bytes: int = MAX_LOG_BYTES,
        history_bytes: int = HISTORY_BYTES,
        future_wait_s: float = FUTURE_WAIT_S,
    ) -> None:
        self.stats = Stats()
        self.epochs: dict[str, int] = {}  # leadership name -> current epoch; MemoryLeadership writes it
        self.leader_locks: dict[str, asyncio.Lock] = {}
        self._clock = clock
        self._log = Log(FIRST_REVISION, 0, max_events=max_events, max_bytes=max_log_bytes)
        self._view = View(self._log)
        self._future_wait_s = future_wait_s
        self._history: dict[str, deque[tuple[int, float, bytes]]] = {}
        self._history_id = 0
        self._history_bytes, self._history_limit = 0, history_bytes

    async def start(self) -> None:
        """Nothing to do: the store is there when it is made."""

    async def stop(self) -> None:
        """Nothing to do: the memory goes with the process."""

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        return self._view.get(key)

    async def list(
        self,
        group: str,
        resource: str,
        *,
        namespace: str | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
        start: tuple[str, str] | None = None,
        at: int | None = None,
        fresh: bool = True,
        alone: bool = False,
    ) -> Page:
        if at is not None:
            await self._reach(at)
        return await self._view.list(group, resource, namespace, selector, limit, start, at)

    def scan(self, group: str, resource: str, *, namespace: str | None = None) -> Sequence[StoredObject]:
        return self._view.scan(group, resource, namespace)

    def peek(self, key: Key) -> StoredObject | None:
        return self._view.get(key)

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict:
        if epoch is not None and epoch not in self.epochs.values():
            raise StaleEpoch(f"epoch {epoch} is over")
        evaluated = evaluate(writes, self._view.get, self._view.revision, self._clock.now())
        if isinstance(evaluated, Conflict):
            return evaluated
        self.stats.commits += 1
        if evaluated.events:
            self.stats.batches += 1
            count(self.stats, [event.stored.key for event in evaluated.events])
            self._view.apply(evaluated.events)
        return CommitResult(evaluated.stored, self._view.revision)

    async def watch(
        self, group: str, resource: str, *, namespace: str | None = None, since: int | None = None
    ) -> LogWatch:
        if since is None:
            since = self._view.revision
        await self._reach(since)
        if since < self._log.floor:
            raise ExpiredRevision(f"the log starts after revision {self._log.floor}")
        return LogWatch(self._log, group, resource, namespace, since)

    async def _reach(self, revision: int) -> None:
        if not await self._log.reach(revision, self._future_wait_s):
            raise FutureRevision(revision, self._view.revision)

    async def events(
        self, resources: Collection[tuple[str, str]], *, since: int, limit: int
    ) -> tuple[Sequence[Event], int]:
        return self._log.after(resources, since, limit)

    async def revision(self, *, alone: bool = False) -> int:
        return self._view.revision

    def everything(self) -> tuple[int, Sequence[StoredObject]]:
        """The revision, and all objects at it."""
        return self._view.revision, self._view.everything()

    def restore(self, revision: int, objects: Sequence[StoredObject]) -> None:
        """Begin with these objects, which `everything` gave."""
        self._view.reset(revision, objects)

    async def compact(self, before: int) -> None:
        self._view.forget(before)

    async def raise_to(self, revision: int) -> None:
        if revision > self._view.revision:
            self._view.reset(revision, self._view.everything())

    async def history(self, kind: str, record: Mapping[str, Any], *, keep: int | None = None) -> int:
        self._history_id += 1
        raw = orjson.dumps(record)
        self._history.setdefault(kind, deque()).append((self._history_id, self._clock.now(), raw))
        self._history_bytes += len(raw)
        while keep is not None and len(self._history[kind]) > keep:
            self._history_bytes -= len(self._history[kind].popleft()[2])
        while self._history_bytes > self._history_limit:
            oldest = min((rows for rows in self._history.values() if rows), key=lambda rows: rows[0][0])
            self._history_bytes -= len(oldest.popleft()[2])
        return self._history_id

    async def read_history(
        self, kind: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = []
        for number, at, raw in reversed(self._history.get(kind, ())):
            if len(rows) >= limit:
                break
            if before is None or number < before:
                rows.append({**orjson.loads(raw), "id": number, "at": at})
        return rows


def count(stats: Stats, keys: Sequence[Key]) -> None:
    """Add one write for each key, under the name that clients use: jobs.batch, configmaps."""
    stats.writes += len(keys)
    for key in keys:
        name = f"{key.resource}.{key.group}" if key.group else key.resource
        stats.by_resource[name] = stats.by_resource.get(name, 0) + 1


class MemoryLeadership:
    """ports.Leadership over one MemoryStore: candidates in this process take turns."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock: asyncio.Lock | None = None
        self._lost = asyncio.Event()

    async def acquire(self, name: str, holder: str) -> int:
        lock = self._store.leader_locks.setdefault(name, asyncio.Lock())
        await lock.acquire()
        self._lock = lock
        self._lost = asyncio.Event()
        epochs = self._store.epochs
        epochs[name] = max(epochs.values(), default=0) + 1
        return epochs[name]

    async def lost(self) -> None:
        await self._lost.wait()

    async def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            self._lost.set()
