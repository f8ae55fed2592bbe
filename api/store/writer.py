"""The batching writer: everything this process commits, in as few transactions as the load allows.

Revision order must be commit order, between processes too, without gaps. So a batch takes one lock in the database
before it reads anything, brings this process's view up to the newest revision, evaluates its commits one after the
other against that view, and writes what holds with consecutive revisions. While one batch is on its way the next one
gathers. A commit that loses its precondition loses alone, and uses no revision.

A process that wrote last itself knows the newest state. Its batch is one statement, which takes the lock and writes
only if the log is still where this process saw it.

When the connection breaks during COMMIT, the outcome is unknown. First the backend of the old connection is ended, so
that nothing that was sent and not yet read happens later. Then the holder of the lock knows that the old transaction
has ended, and the log says whether its revisions are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import structlog

from api.store import sql
from api.store.evaluate import CommitEffect, evaluate
from api.store.follower import Follower
from api.store.link import BROKEN, Link, why_away
from api.store.memory import count
from api.store.secrets import SecretBox
from api.store.view import View
from fleet.values.ports import (
    Clock,
    CommitResult,
    Conflict,
    Event,
    EventType,
    Key,
    StaleEpoch,
    Stats,
    StoredObject,
    StoreFull,
    StoreUnavailable,
    Write,
)

log = structlog.get_logger(__name__)

MAX_COMMITS = 500  # in one batch
MAX_WRITES = 2000
MAX_BYTES = 16 << 20  # of bodies; a write that does not fit goes first into the next batch
MAX_WAITING = 20_000  # commits; more are refused
RETRY_S = (0.05, 0.1, 0.2, *[0.4] * 22)  # pauses before a batch that did not happen is given up
APART = 20  # batches in four steps after one whose view was not the newest
RESOLVE_S = 300.0  # how long an unknown outcome is asked for


def no_space(error: Exception) -> bool:
    """The disk is full, the quota used up, or a limit on the size of files reached."""
    return isinstance(error, asyncpg.DiskFullError) or "File too large" in str(error)


class UnknownOutcome(StoreUnavailable):
    """The database went away during COMMIT and stayed away: the only failure after which a commit may have happened."""


@dataclass(slots=True)
class PendingCommit:
    """A commit on its way, and its outcome."""

    writes: Sequence[Write]
    epoch: int | None
    answer: asyncio.Future[CommitResult | Conflict]
    result: CommitEffect | Conflict | BaseException | None = None


@dataclass(slots=True)
class Batch:
    """The result of a batch once it is evaluated."""

    events: list[Event] = field(default_factory=list)
    bodies: list[tuple[str | None, bytes]] = field(default_factory=list)


class Writer:
    """Runs batches until it is closed. `submit` waits for one."""

    def __init__(self, dsn: str, view: View, follower: Follower, box: SecretBox, clock: Clock, stats: Stats) -> None:
        self._view, self._follower, self._box, self._clock, self._stats = view, follower, box, clock, stats
        self.link = Link(dsn, "write", sql.BY_KEY)
        self._queue: deque[PendingCommit] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._apart = 0  # batches to come that take four steps, since another process has written

    async def submit(self, writes: Sequence[Write], epoch: int | None) -> CommitResult | Conflict:
        if self._closed or len(self._queue) >= MAX_WAITING:
            raise StoreUnavailable("the store is stopping" if self._closed else "too many writes are waiting")
        waiting = PendingCommit(writes, epoch, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._wake.set()
        return await waiting.answer

    async def run(self) -> None:
        while not (self._closed and not self._queue):
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            commits = self._gather()
            try:
                await self._commit(commits)
            except asyncio.CancelledError:
                self._fail(commits, StoreUnavailable("the store is stopping"))
                raise
            except StoreUnavailable as error:
                self._fail(commits, error)
            except Exception as error:
                await self._one_by_one(commits, error)

    async def _one_by_one(self, commits: list[PendingCommit], error: Exception) -> None:
        """The database refused the batch: find the commit that it cannot take, and let the others through."""
        log.error("a batch was refused", error=repr(error), commits=len(commits))
        if len(commits) == 1:
            self._fail(commits, error)
            return
        for waiting in commits:
            try:
                await self._commit([waiting])
            except asyncio.CancelledError:
                self._fail(commits, StoreUnavailable("the store is stopping"))
                raise
            except Exception as refused:
                self._fail([waiting], refused)

    def close(self) -> None:
        """Take no more commits; `run` returns when the accepted ones are answered."""
        self._closed = True
        self._wake.set()

    async def end(self) -> None:
        while self._queue:
            self._fail([self._queue.popleft()], StoreUnavailable("the store has stopped"))
        await self.link.close()

    def _gather(self) -> list[PendingCommit]:
        commits: list[PendingCommit] = []
        writes = 0
        while self._queue and len(commits) < MAX_COMMITS:
            if commits and writes + len(self._queue[0].writes) > MAX_WRITES:
                break
            waiting = self._queue.popleft()
            if waiting.answer.cancelled():
                continue
            commits.append(waiting)
            writes += len(waiting.writes)
        return commits

    @staticmethod
    def _fail(commits: Sequence[PendingCommit], error: BaseException) -> None:
        for waiting in commits:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)

    @property
    def waiting(self) -> int:
        """Commits that no batch has taken yet."""
        return len(self._queue)

    async def _commit(self, commits: list[PendingCommit]) -> None:
        """Run one batch to an answer for each of its commits, or raise StoreUnavailable: then none happened."""
        for pause in (*RETRY_S, None):
            began = self._clock.monotonic()
            try:
                batch = await self._attempt(commits)
            except (*BROKEN, asyncpg.PostgresError) as error:
                if no_space(error):  # waiting for each batch would only let the others queue up
                    why = str(error).partition("\n")[0]  # without PostgreSQL's hint
                    raise StoreFull(f"the database has no space left: {why}") from error
                if not isinstance(error, BROKEN):
                    raise
                if isinstance(error, ValueError):
                    raise  # an argument that cannot be sent: the connection is well, the commit is not
                if pause is None:
                    raise StoreUnavailable(why_away(error)) from error
                log.warning("the database cannot be reached, trying again", error=why_away(error), pause_s=pause)
                await asyncio.sleep(pause)
                continue
            if batch is not None:
                self._stats.batch_s += self._clock.monotonic() - began if batch.events else 0.0
                self._answer(commits, batch)
                return
        raise StoreUnavailable("the database gave up this write too often")

    async def _attempt(self, commits: list[PendingCommit]) -> Batch | None:
        """One transaction; None if it turned out not to have happened. Raises BROKEN when it surely has not."""
        if self._apart:
            self._apart -= 1
        elif all(waiting.epoch is None for waiting in commits):
            batch = await self._at_once(commits)
            if batch is not None:
                return batch
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self.link.use())
            await connection.execute(sql.BEGIN)
            state = await connection.fetchrow(sql.STATE)
            if self._view.revision > state["revision"]:
                await self._follower.load_from(connection)  # restored from a backup: under the lock no process is ahead
            await self._follower.catch_up(connection, state)
            batch = self._evaluate(commits, frozenset(state["epochs"]))
            if not batch.events:
                await connection.execute("ROLLBACK")
                return batch
            backend = self._follower.own_backend = connection.get_server_pid()
            await connection.fetchval(sql.WRITE, *sql.write_arguments(batch.events, batch.bodies))
            try:
                await connection.execute("COMMIT")
            except (*BROKEN, asyncpg.PostgresError) as error:
                log.warning("the connection broke during COMMIT, asking what happened", error=repr(error))
                connection.terminate()
            else:
                return batch
        return batch if await self._happened(batch, backend) else None

    async def _at_once(self, commits: list[PendingCommit]) -> Batch | None:
        """The same by one statement, which holds where no other process has written lately. None if it did not happen,
        or would say nothing: refusals are true of the newest state only."""
        async with self.link.use() as connection:
            revision, batch = self._view.revision, self._evaluate(commits, frozenset())
            if not batch.events:
                return None
            arguments = sql.write_arguments(batch.events, batch.bodies)
            backend = self._follower.own_backend = connection.get_server_pid()
            try:
                row = await connection.fetchrow(sql.WRITE_AT_ONCE, *arguments, revision)
            except (*BROKEN, asyncpg.PostgresError) as error:
                if isinstance(error, ValueError):
                    raise
                log.warning("a write was not answered, asking what happened", error=repr(error))
                connection.terminate()
            else:
                self._apart = 0 if row else APART
                return batch if row else None
        return batch if await self._happened(batch, backend) else None

    def _evaluate(self, commits: list[PendingCommit], epochs: frozenset[int]) -> Batch:
        """Judge every commit in order; a later one sees the changes of the earlier ones. Large ones are left for later,
        taken off `commits` and put back into the queue."""
        batch = Batch()
        size = 0
        changed: dict[Key, StoredObject | None] = {}
        last, now = self._view.revision, self._clock.now()

        def lookup(key: Key) -> StoredObject | None:
            return changed[key] if key in changed else self._view.get(key)

        for index, waiting in enumerate(commits):
            if size > MAX_BYTES:
                self._queue.extendleft(reversed(commits[index:]))
                del commits[index:]
                break
            if waiting.epoch is not None and waiting.epoch not in epochs:
                waiting.result = StaleEpoch(f"epoch {waiting.epoch} is over")
                continue
            try:
                waiting.result = result = evaluate(waiting.writes, lookup, last, now)
            except Exception as error:  # a Change refused, or is broken: its commit's affair
                waiting.result = error
                continue
            if isinstance(result, CommitEffect) and result.events:
                last = result.events[-1].revision
                batch.events.extend(result.events)
                for event in result.events:
                    size += len(event.stored.raw)
                    changed[event.stored.key] = None if event.type is EventType.DELETED else event.stored
        batch.bodies = sql.sealed(batch.events, self._box)
        return batch

    async def _happened(self, batch: Batch, backend: int) -> bool:
        """Whether a batch whose COMMIT got no answer is in the log. `backend`: the process that was to take it. Raises
        UnknownOutcome where that cannot be known."""
        deadline = asyncio.get_running_loop().time() + RESOLVE_S
        events = [
            (event.revision, str(event.type), body) for event, (_, body) in zip(batch.events, batch.bodies, strict=True)
        ]
        while True:
            try:
                async with self.link.use() as connection:
                    if await connection.fetchval(sql.END_BACKEND, backend, self.link.name) is False:
                        raise TimeoutError("the old connection's backend has not ended")
                    await connection.execute(sql.BEGIN)  # waits until the old transaction has ended, either way
                    rows = await connection.fetch(sql.SAME_EVENTS, [event.revision for event in batch.events])
                    await connection.execute("ROLLBACK")
            except BROKEN as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise UnknownOutcome("the database went away during COMMIT and did not come back") from error
                await asyncio.sleep(0.2)
            else:
                found = sorted((row["revision"], row["type"], row["body"]) for row in rows)
                return found == events

    def _answer(self, commits: Sequence[PendingCommit], batch: Batch) -> None:
        """The batch is in the database: show it to this process's readers, then answer."""
        self._view.apply(batch.events)
        if batch.events:
            self._stats.batches += 1
            count(self._stats, [event.stored.key for event in batch.events])
        for waiting in commits:
            result = waiting.result
            if waiting.answer.done():
                continue
            if isinstance(result, CommitEffect):
                self._stats.commits += 1
                revision = result.events[-1].revision if result.events else self._view.revision
                waiting.answer.set_result(CommitResult(result.stored, revision))
            elif isinstance(result, Conflict):
                waiting.answer.set_result(result)
            else:
                assert result is not None
                waiting.answer.set_exception(result)
