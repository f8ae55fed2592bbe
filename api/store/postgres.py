"""The store in PostgreSQL (ports.Store): the parts put together.

Reads come from this process's view, writes go through its batching writer, and the follower keeps the view at the end
of the log. Events that the view has dropped are read from the `events` table.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import structlog

from api.store import sql
from api.store.apart import ApartWriter
from api.store.bodies import PLAIN_BYTES, Bodies
from api.store.follower import Follower
from api.store.link import BROKEN, Link, why_away
from api.store.log import Log, LogWatch
from api.store.maintenance import Maintenance, Retention
from api.store.migrate import migrate
from api.store.pages import rebuild
from api.store.secrets import SecretBox
from api.store.view import View
from api.store.writer import Writer
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
    Stats,
    StoredObject,
    StoreUnavailable,
    Write,
)

log = structlog.get_logger(__name__)

FUTURE_WAIT_S = 3.0
OLDER_CHUNK = 1000  # events that a watch reads from the database at once
OLDER_BYTES = 4 << 20  # of their bodies; one more event than fits, so that every read gets further
MEMORY_EVENTS = 50_000
MEMORY_LOG_BYTES = 64 << 20
DRAIN_S = 10.0  # how long `stop` waits for accepted commits


@dataclass(frozen=True, slots=True)
class Figures:
    """Of this process: the newest revision that it knows, and its commits that no batch has taken yet. Of the database:
    its size, None before the first look at it."""

    revision: int
    waiting: int
    database_bytes: int | None


class PostgresStore:
    """`await start()` migrates the schema if needed, reads the state, and follows the log until `stop()`."""

    def __init__(
        self,
        dsn: str,
        clock: Clock,
        *,
        secret_key_file: Path,
        retention: Retention | None = None,
        max_events: int = MEMORY_EVENTS,
        max_log_bytes: int = MEMORY_LOG_BYTES,
        future_wait_s: float = FUTURE_WAIT_S,
        plain_bytes: int = PLAIN_BYTES,
        parsed_bytes: int | None = None,
    ) -> None:
        """`secret_key_file` is made if it is not there; all processes of one hub need the same file. `plain_bytes`,
        `parsed_bytes`: the room of objects that are not packed, and of those that are parsed (None: no bound)."""
        self.stats = Stats()
        self._dsn, self._clock, self._future_wait_s = dsn, clock, future_wait_s
        self._box = SecretBox(secret_key_file)
        self._log = Log(0, 0, max_events=max_events, max_bytes=max_log_bytes)
        self._view = View(self._log, Bodies(plain_bytes, parsed_bytes))
        self._follower = Follower(dsn, self._view, self._box)
        self._writer = Writer(dsn, self._view, self._follower, self._box, clock, self.stats)
        self._reader = Link(dsn, "read")
        upkeep = Link(dsn, "maintain")
        self._maintenance = Maintenance(upkeep, clock, retention or Retention())
        self.links = (self._writer.link, self._follower.link, self._follower.own_link, self._reader, upkeep)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        try:
            await migrate(self._dsn)
            await self._follower.load()
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        self._tasks = [
            asyncio.create_task(self._writer.run(), name="store-writer"),
            asyncio.create_task(self._follower.run(), name="store-follower"),
            asyncio.create_task(self._maintenance.run(), name="store-maintenance"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A part that ends by itself is a bug: refuse writes rather than serve a state that no longer moves."""
        if not task.cancelled() and task.exception() is not None:
            log.critical("a part of the store ended", part=task.get_name(), exc_info=task.exception())
            self._writer.close()

    async def stop(self) -> None:
        """Answer the commits that were accepted, then let go of the database."""
        self._writer.close()
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=DRAIN_S)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        self._tasks = []
        await self._writer.end()
        await self._follower.close()
        await self._reader.close()
        await self._maintenance.close()

    def figures(self) -> Figures:
        return Figures(self._view.revision, self._writer.waiting, self._maintenance.database_bytes)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        if fresh:
            await self._follower.fresh(alone)
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
        elif fresh:
            await self._follower.fresh(alone)
        try:
            return await self._view.list(group, resource, namespace, selector, limit, start, at)
        except ExpiredRevision:
            if at is None:
                raise
            await self._rebuild(group, resource, at)
            return await self._view.list(group, resource, namespace, selector, limit, start, at)

    async def _rebuild(self, group: str, resource: str, at: int) -> None:
        """Have the view remember the resource as it was. Raises ExpiredRevision."""
        try:
            async with self._reader.use() as connection:
                snapshot = await rebuild(connection, self._box, self._view, group, resource, at)
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        self._view.remember(group, resource, snapshot)

    def scan(self, group: str, resource: str, *, namespace: str | None = None) -> Sequence[StoredObject]:
        return self._view.scan(group, resource, namespace)

    def peek(self, key: Key) -> StoredObject | None:
        return self._view.get(key)

    async def events(
        self, resources: Collection[tuple[str, str]], *, since: int, limit: int
    ) -> tuple[Sequence[Event], int]:
        if since >= self._log.floor:
            return self._log.after(resources, since, limit)
        newest = self._view.revision
        groups, names = [group for group, _ in resources], [resource for _, resource in resources]
        try:
            async with self._reader.use() as connection:
                rows = await connection.fetch(sql.EVENTS_OF_SOME, since, newest, groups, names, limit)
                compacted = await connection.fetchval("SELECT compacted FROM log_state")  # after reading, as in _older
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        if since < compacted:
            raise ExpiredRevision(f"the log no longer reaches back to revision {since}")
        found = [sql.event_of(row, self._box) for row in rows]
        return found, found[-1].revision if len(found) == limit else newest

    async def revision(self, *, alone: bool = False) -> int:
        return await self._follower.fresh(alone)

    async def watch(
        self, group: str, resource: str, *, namespace: str | None = None, since: int | None = None
    ) -> LogWatch:
        if since is None:
            since = self._view.revision
        await self._reach(since)
        if since < self._log.floor and since < await self._compacted():
            raise ExpiredRevision(f"the log no longer reaches back to revision {since}")
        return LogWatch(self._log, group, resource, namespace, since, self._older)

    async def _reach(self, revision: int) -> None:
        if revision <= self._view.revision:
            return
        await self._follower.fresh()
        if not await self._log.reach(revision, self._future_wait_s):
            raise FutureRevision(revision, self._view.revision)

    async def _compacted(self) -> int:
        try:
            async with self._reader.use() as connection:
                compacted: int = await connection.fetchval("SELECT compacted FROM log_state")
                return compacted
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error

    async def _older(self, group: str, resource: str, since: int) -> tuple[Sequence[Event], int]:
        """The events that a watch missed and that are no longer in memory (log.Older)."""
        newest = self._view.revision  # events after it will come through memory
        try:
            async with self._reader.use() as connection:
                sizes = await connection.fetch(sql.EVENT_SIZES, group, resource, since, newest, OLDER_CHUNK)
                upto = _within(sizes) or newest
                rows = await connection.fetch(sql.EVENTS_OF_RESOURCE, group, resource, since, upto)
                # Asked after reading: events from before the compaction have been read.
                compacted = await connection.fetchval("SELECT compacted FROM log_state")
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        if since < compacted:
            raise ExpiredRevision(f"the log no longer reaches back to revision {since}")
        events = [sql.event_of(row, self._box) for row in rows]
        return events, upto

    # -- writing -----------------------------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict:
        return await self._writer.submit(writes, epoch)

    def apart(self) -> ApartWriter:
        """A writer for another event loop than that of this store."""
        return ApartWriter(self._dsn, self._box, self._clock)

    async def compact(self, before: int) -> None:
        try:
            compacted = await self._maintenance.compact(before)
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        await self._reach(compacted)
        self._view.forget(compacted)

    async def raise_to(self, revision: int) -> None:
        try:
            await self._maintenance.raise_to(revision)
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        await self._follower.fresh()

    async def reencrypt(self) -> int:
        """Bring every secret to the current key, after `rotate_key`; returns how many rows were rewritten."""
        return await self._maintenance.reencrypt(self._box)

    async def rotate_key(self) -> str:
        """Write secrets with a new key from now on; returns its id. Other processes learn it from the key file."""
        return await asyncio.to_thread(self._box.rotate)

    async def history(self, kind: str, record: Mapping[str, Any], *, keep: int | None = None) -> int:
        try:
            async with self._reader.use() as connection, connection.transaction():
                number = await connection.fetchval(
                    "INSERT INTO history (kind, at, body) VALUES ($1, $2, $3) RETURNING id",
                    kind,
                    self._clock.now(),
                    orjson.dumps(record),
                )
                if keep is not None:
                    await connection.execute(
                        "DELETE FROM history WHERE kind = $1 AND id <="
                        " (SELECT id FROM history WHERE kind = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)",
                        kind,
                        keep,
                    )
                return int(number)
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise StoreUnavailable(f"the database does not take it: {error!r}") from error

    async def read_history(
        self, kind: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        try:
            async with self._reader.use() as connection:
                rows = await connection.fetch(
                    "SELECT id, at, body FROM history WHERE kind = $1 AND ($2::bigint IS NULL OR id < $2)"
                    " ORDER BY id DESC LIMIT $3",
                    kind,
                    before,
                    limit,
                )
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error
        return [{**orjson.loads(row["body"]), "id": row["id"], "at": row["at"]} for row in rows]


def _within(sizes: Sequence[asyncpg.Record]) -> int | None:
    """The revision up to which one read may go, None when it may take all that there is."""
    total = 0
    for row in sizes:
        total += row["size"] or 0
        if total >= OLDER_BYTES:
            return int(row["revision"])
    return int(sizes[-1]["revision"]) if len(sizes) == OLDER_CHUNK else None
