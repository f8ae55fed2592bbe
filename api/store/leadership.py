"""One leader at a time (ports.Leadership), by an advisory lock on a connection of its own, and a fence.

The lock tells the present leader. Commits check the epoch, which is raised on taking the lock, so a process that only
thinks it leads can change nothing. A leader that was stopped (SIGSTOP, a frozen machine) keeps its connection and with
it the lock. So a leader shows life on that connection, and a candidate that sees none for `takeover_s` ends the
connection.

The connection belongs to a thread with an event loop of its own, which shows life for the loop of the process: while
that loop turns (life.py). The thread gives the leadership up for a loop that stands.

No epoch can stop a leader's acts outside the database. So a leader asks `sure()` first: whether it has shown life so
lately that no other can have taken over. A leader that was stopped is not sure when it wakes, until it has shown life
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import structlog

from api.store import sql
from api.store.life import LoopState, Patience, Stamps
from api.store.link import BROKEN, connect, let_go, why_away
from fleet.values.ports import StaleEpoch, StoreUnavailable

log = structlog.get_logger(__name__)

LOCK_CLASS = 0x666C  # of the two-number advisory locks; the second number is made from the name
RETRY_S = 0.1  # the longest time without a leader, where another stands by
DEPOSE_EVERY = 5  # tries; the look for a holder that shows no life costs more than they do

SILENT_HOLDER = """
    SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1::int::oid AND l.objid = $2::bigint::oid
      AND l.objsubid = 2 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND clock_timestamp() - a.state_change > make_interval(secs => $3)
"""


@dataclass(frozen=True, slots=True)
class Sign:
    """Another sign of life, given in the leadership's thread. `close`: called there when no more are given."""

    give: Callable[[], Awaitable[None]]
    every_s: float
    close: Callable[[], Awaitable[None]]


class PostgresLeadership:
    """Candidate, then leader. One object leads one thing at a time."""

    def __init__(self, dsn: str, *, patience: Patience | None = None) -> None:
        self._dsn, self._patience = dsn, patience or Patience()
        self._turn: _Turn | None = None

    async def acquire(self, name: str, holder: str) -> int:
        """Wait until this process leads `name`, through restarts of the database; returns the new epoch."""
        await self.release()
        self._turn = turn = _Turn(self._dsn, name, holder, self._patience)
        try:
            return await turn.epoch
        except BaseException:
            await self.release()
            raise

    def show(self, sign: Sign) -> None:
        """Have the leadership's thread give this sign, too, while the loop turns and as long as the process leads."""
        if self._turn is not None:
            self._turn.show(sign)

    def sure(self) -> bool:
        """Whether no other process can lead now: for acts outside the database."""
        return self._turn is not None and self._turn.sure()

    async def lost(self) -> None:
        if self._turn is not None:
            await self._turn.ended.wait()

    async def release(self) -> None:
        """Give the leadership up at once; nothing to do for who has none."""
        if self._turn is not None:
            await self._turn.end()


class _Turn:
    """From the election to the loss. Made and asked by the loop of the process (`home`); methods that begin with
    `_there` run in the thread."""

    def __init__(self, dsn: str, name: str, holder: str, patience: Patience) -> None:
        self._dsn, self._name, self._holder, self._patience = dsn, name, holder, patience
        self._number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) & 0x7FFFFFFF
        self._home = asyncio.get_running_loop()
        self.epoch: asyncio.Future[int] = self._home.create_future()
        self.ended = asyncio.Event()
        self._stamps = Stamps(patience)
        self._over = self._closing = False
        self._shown_at = float("-inf")  # monotonic: when the latest sign of life that was answered had been sent
        self._signs: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._work = self._loop.create_task(self._there(), name="leader-alive")
        threading.Thread(target=self._run, name="leader-alive", daemon=True).start()

    def sure(self) -> bool:
        age_s = time.monotonic() - self._shown_at
        return not self._over and age_s < self._patience.sure_part * self._patience.takeover_s

    def show(self, sign: Sign) -> None:
        self._in_thread(lambda: self._signs.add(self._loop.create_task(self._there_show(sign), name="leader-sign")))

    async def end(self) -> None:
        """Returns when the thread has let go of its connection."""
        self._over = True
        self._stamps.end()
        self._in_thread(self._there_stop)
        await self.ended.wait()

    def _in_thread(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(call)

    # -- in the thread

    def _run(self) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._work)
        finally:
            self._loop.close()
            self._tell(self._finish)

    def _tell(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of the process has ended
            self._home.call_soon_threadsafe(call)

    def _won(self, epoch: int) -> None:
        if not self.epoch.done():
            self.epoch.set_result(epoch)

    def _finish(self) -> None:
        if not self.epoch.done():
            self.epoch.set_exception(StoreUnavailable("the thread of the leadership has ended"))
        self.ended.set()

    def _there_stop(self) -> None:
        if not self._closing:
            self._work.cancel()

    async def _there(self) -> None:
        connection: asyncpg.Connection | None = None
        try:
            connection, epoch = await self._there_elected()
            gone = asyncio.Event()
            connection.add_termination_listener(lambda _: gone.set())
            self._tell(lambda: self._won(epoch))
            await self._there_alive(connection, gone)
        except Exception as error:  # any error: a leader that shows no life leads no more
            log.warning("leadership lost", error=why_away(error) if isinstance(error, BROKEN) else repr(error))
        finally:
            self._over = self._closing = True  # before another can lead
            for task in self._signs:
                task.cancel()
            await let_go(connection)
            await asyncio.gather(*self._signs, return_exceptions=True)

    async def _there_elected(self) -> tuple[asyncpg.Connection, int]:
        """The connection that holds the lock, and the new epoch."""
        while True:
            with contextlib.suppress(*BROKEN):
                connection = await connect(self._dsn, f"fleet: leader {self._name}")
                try:
                    for attempt in itertools.count():
                        if self._stamps.turning is LoopState.TURNS:
                            if await connection.fetchval(
                                "SELECT pg_try_advisory_lock($1, $2)", LOCK_CLASS, self._number
                            ):
                                break
                            if attempt % DEPOSE_EVERY == 0:
                                await self._there_depose(connection)
                        await asyncio.sleep(RETRY_S)
                    shown_at = time.monotonic()
                    epoch = await self._there_raise_epoch(connection)
                except BaseException:
                    connection.terminate()
                    raise
                self._shown_at = shown_at
                return connection, epoch
            await asyncio.sleep(RETRY_S)

    async def _there_depose(self, connection: asyncpg.Connection) -> None:
        """End the connection of a holder that shows no life."""
        for row in await connection.fetch(SILENT_HOLDER, LOCK_CLASS, self._number, self._patience.takeover_s):
            log.warning("the leader shows no life, taking over", name=self._name, pid=row["pid"])
            await connection.execute("SELECT pg_terminate_backend($1)", row["pid"])

    async def _there_raise_epoch(self, connection: asyncpg.Connection) -> int:
        # Under the writers' lock: no batch of the old leader can be half-way past its check.
        await connection.execute(sql.BEGIN)
        epoch: int = await connection.fetchval(
            "INSERT INTO leaders (name, holder, epoch)"
            " VALUES ($1, $2, (SELECT coalesce(max(epoch), 0) + 1 FROM leaders))"
            " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = excluded.epoch RETURNING epoch",
            self._name,
            self._holder,
        )
        await connection.execute("COMMIT")
        return epoch

    async def _there_alive(self, connection: asyncpg.Connection, gone: asyncio.Event) -> None:
        """Show life until the loop stands or the connection is gone."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), self._patience.alive_every_s)
            if gone.is_set():
                log.warning("leadership lost", error="the connection ended")
                return
            turning = self._stamps.turning
            if turning is LoopState.STANDS:
                log.warning("leadership given up: the event loop stands", stands_s=round(self._stamps.age_s, 1))
                return
            if turning is LoopState.TURNS:
                sent_at = time.monotonic()
                await connection.execute("SELECT 1", timeout=self._patience.takeover_s)
                self._shown_at = sent_at

    async def _there_show(self, sign: Sign) -> None:
        try:
            while True:
                if self._stamps.turning is LoopState.TURNS:
                    try:
                        await sign.give()
                    except StaleEpoch:  # another leads; its own connection tells the leadership, too
                        return
                    except StoreUnavailable:
                        pass  # the sign grows old meanwhile, which is the truth
                    except Exception as error:
                        log.warning("a sign of life failed", error=repr(error))
                await asyncio.sleep(sign.every_s)
        finally:
            await sign.close()
