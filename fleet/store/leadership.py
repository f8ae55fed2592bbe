"""One leader at a time (ports.Leadership), by an advisory lock on a connection of its own, and a fence.

The lock tells the present leader. Commits check the epoch, which is raised on taking the lock, so a process that only
thinks it leads can change nothing. A leader that was stopped (SIGSTOP, a frozen machine) keeps its connection and with
it the lock. So a leader shows life on that connection, and a candidate that sees none for `takeover_s` ends the
connection.

No epoch can stop a leader's acts outside the database. So a leader asks `sure()` first: whether it has shown life so
lately that no other can have taken over. A leader that was stopped is not sure when it wakes, until it has shown life
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import time

import asyncpg
import structlog

from fleet.store import sql
from fleet.store.link import BROKEN, connect, let_go

log = structlog.get_logger(__name__)

LOCK_CLASS = 0x666C  # of the two-number advisory locks; the second number is made from the name
ALIVE_EVERY_S = 1.0
TAKEOVER_S = 10.0
SURE_PART = 0.7  # of the take-over time; the rest is for what was begun just before
RETRY_S = 0.1  # the longest time without a leader, where another stands by
DEPOSE_EVERY = 5  # tries; the look for a holder that shows no life costs more than they do

SILENT_HOLDER = """
    SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1::int::oid AND l.objid = $2::bigint::oid
      AND l.objsubid = 2 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND clock_timestamp() - a.state_change > make_interval(secs => $3)
"""


class PostgresLeadership:
    """Candidate, then leader. One object leads one thing at a time."""

    def __init__(self, dsn: str, *, takeover_s: float = TAKEOVER_S) -> None:
        self._dsn, self._takeover_s = dsn, takeover_s
        self._connection: asyncpg.Connection | None = None
        self._lost = asyncio.Event()
        self._alive: asyncio.Task[None] | None = None
        self._shown_at = float("-inf")  # monotonic: when the latest sign of life that was answered had been sent

    async def acquire(self, name: str, holder: str) -> int:
        """Wait until this process leads `name`, through restarts of the database; returns the new epoch."""
        await self.release()
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) & 0x7FFFFFFF
        while True:
            with contextlib.suppress(*BROKEN):
                connection = await connect(self._dsn, f"fleet: leader {name}")
                try:
                    tries = itertools.count()
                    while not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", LOCK_CLASS, number):
                        if next(tries) % DEPOSE_EVERY == 0:
                            await self._depose(connection, name, number)
                        await asyncio.sleep(RETRY_S)
                    shown_at = time.monotonic()
                    epoch = await self._raise_epoch(connection, name, holder)
                except BaseException:
                    connection.terminate()
                    raise
                self._lead(connection, shown_at)
                return epoch
            await asyncio.sleep(RETRY_S)

    async def _depose(self, connection: asyncpg.Connection, name: str, number: int) -> None:
        """End the connection of a holder that shows no life."""
        for row in await connection.fetch(SILENT_HOLDER, LOCK_CLASS, number, self._takeover_s):
            log.warning("the leader shows no life, taking over", name=name, pid=row["pid"])
            await connection.execute("SELECT pg_terminate_backend($1)", row["pid"])

    @staticmethod
    async def _raise_epoch(connection: asyncpg.Connection, name: str, holder: str) -> int:
        # Under the writers' lock: no batch of the old leader can be half-way past its check.
        await connection.execute(sql.BEGIN)
        epoch: int = await connection.fetchval(
            "INSERT INTO leaders (name, holder, epoch)"
            " VALUES ($1, $2, (SELECT coalesce(max(epoch), 0) + 1 FROM leaders))"
            " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = excluded.epoch RETURNING epoch",
            name, holder,
        )  # fmt: skip
        await connection.execute("COMMIT")
        return epoch

    def _lead(self, connection: asyncpg.Connection, shown_at: float) -> None:
        self._shown_at = shown_at
        self._connection = connection
        self._lost = lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        self._alive = asyncio.create_task(self._show_life(connection, lost), name="leader-alive")

    async def _show_life(self, connection: asyncpg.Connection, lost: asyncio.Event) -> None:
        try:
            while True:
                await asyncio.sleep(ALIVE_EVERY_S)
                sent_at = time.monotonic()
                await connection.execute("SELECT 1", timeout=self._takeover_s)
                self._shown_at = sent_at
        except Exception as error:  # any error: a leader that shows no life leads no more
            log.warning("leadership lost", error=repr(error))
            lost.set()

    def sure(self) -> bool:
        """Whether no other process can lead now: for acts outside the database."""
        return not self._lost.is_set() and time.monotonic() - self._shown_at < SURE_PART * self._takeover_s

    async def lost(self) -> None:
        await self._lost.wait()

    async def release(self) -> None:
        """Give the leadership up at once; nothing to do for who has none."""
        alive, self._alive = self._alive, None
        if alive is not None:
            alive.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await alive
        connection, self._connection = self._connection, None
        await let_go(connection)
        self._lost.set()
