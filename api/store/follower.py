"""Keeps this process's view at the end of the log.

NOTIFY is a hint that may be lost; asking for the newest revision once a second is the truth. Reads that must be fresh
ask too, and all reads that arrive while one question is on its way share the next one. A reader who is alone asks by
itself, on a connection of its own: it waits neither for the question that is on its way nor for another task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import asyncpg
import structlog

from api.store import sql
from api.store.link import BROKEN, Link, connect, why_away
from api.store.secrets import SecretBox
from api.store.view import View
from fleet.values.ports import StoredObject, StoreUnavailable

log = structlog.get_logger(__name__)

POLL_S = 1.0
CHUNK = 2000  # events read at once
FRESH_TIMEOUT_S = 5.0
RECONNECT_S = 0.2
ABANDONED_S = 1.0  # after a reader that went away with its own question, before the next one asks by itself


class Follower:
    """Feeds the view from the `events` table."""

    def __init__(self, dsn: str, view: View, box: SecretBox) -> None:
        self._dsn, self._view, self._box = dsn, view, box
        self.link = Link(dsn, "follow")
        self.own_link = Link(dsn, "ask")  # of a reader that is alone
        self._own_from = 0.0  # of the loop's clock: when the next reader may ask by itself
        self.own_backend = 0  # the process of the database that writes for this process, which knows its own writes
        self._hint = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._next: _Question | None = None

    async def load(self) -> None:
        """Read everything there is. Raises BROKEN, and MissingKey."""
        async with self.link.use() as connection:
            await self.load_from(connection, at_start=True)

    async def load_from(self, connection: asyncpg.Connection, *, at_start: bool = False) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if not connection.is_in_transaction():
                await stack.enter_async_context(connection.transaction())
            newest, objects = await self._everything(connection, at_start)
        self._view.reset(newest, objects)

    async def _everything(self, connection: asyncpg.Connection, at_start: bool) -> tuple[int, list[StoredObject]]:
        """The newest revision and all objects: in parts, since the rows of a million take more room than their
        objects."""
        newest, objects, bodies = 0, list[StoredObject](), self._view.bodies
        cursor = await connection.cursor(sql.EVERYTHING)
        while rows := await cursor.fetch(CHUNK):
            newest = rows[0]["newest"]
            for row in rows:
                if row["name"] is None:
                    continue  # there are no objects
                stored = sql.stored_of(row, self._box, at_start=at_start)
                objects.append(stored)
                if bodies is not None:
                    bodies.keep(stored)
        return newest, objects

    async def catch_up(self, connection: asyncpg.Connection, state: Mapping[str, Any]) -> None:
        """Bring the view to the revision of `state`, which was read on this connection."""
        while self._view.revision < state["revision"]:
            if self._view.revision < state["compacted"]:
                # Asleep for longer than the log is kept.
                await self.load_from(connection)
                return
            rows = await connection.fetch(sql.EVENTS, self._view.revision, CHUNK)
            if not rows:
                await self.load_from(connection)  # compacted since `state` was read
                return
            self._view.apply([sql.event_of(row, self._box) for row in rows])

    async def run(self) -> None:
        """Follow the log until cancelled, through restarts of the database."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._poll())

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # only a hint is lost, by any error
                connection = await connect(self._dsn, "fleet: listen")
                gone = asyncio.Event()
                connection.add_termination_listener(lambda _, gone=gone: gone.set())
                try:
                    await connection.add_listener(sql.CHANNEL, self._notified)
                    await gone.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(RECONNECT_S)

    def _notified(self, _connection: object, pid: int, _channel: str, payload: object) -> None:
        if pid != self.own_backend and int(str(payload)) > self._view.revision:
            self._hint.set()

    async def _poll(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._hint.wait()
            except TimeoutError:
                pass
            self._hint.clear()
            try:
                await self._ask(self.link)
            except (*BROKEN, StoreUnavailable) as error:
                log.debug("the database cannot be reached", error=repr(error))
                await asyncio.sleep(RECONNECT_S)
            except Exception:  # a view that no longer moves would serve what is not so any more
                log.exception("the log cannot be followed, trying again")
                await asyncio.sleep(POLL_S)

    async def _ask(self, link: Link, timeout_s: float | None = None) -> int:
        """Read the newest revision, and bring the view there."""
        async with link.use() as connection:
            state = await connection.fetchrow(sql.HEAD, timeout=timeout_s)
            await self.catch_up(connection, state)
            if state["compacted"] > self._view.log.floor:
                self._view.forget(state["compacted"])
        revision: int = state["revision"]
        return revision

    async def fresh(self, alone: bool = False) -> int:
        """The newest revision of a question asked after this call; the view has reached it. `alone`: the question need
        not be shared with other readers. Raises StoreUnavailable."""
        if alone and not self.own_link.busy:
            revision = await self._ask_alone()
            if revision is not None:
                return revision
        question = self._next
        if question is None:
            question = self._next = _Question()
            if self._asking is None:
                self._asking = asyncio.create_task(self._answer())
        try:
            return await question.reader()
        except BROKEN as error:
            raise StoreUnavailable(why_away(error)) from error

    async def _ask_alone(self) -> int | None:
        """The newest revision; None where the shared question has to find it."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._own_from:
            return None
        try:
            return await self._ask(self.own_link, FRESH_TIMEOUT_S)
        except TimeoutError as error:
            raise StoreUnavailable(why_away(error)) from error
        except BROKEN:
            return None
        except BaseException:  # the connection ends with the question, and a new one costs the database a process
            self._own_from = loop.time() + ABANDONED_S
            raise

    async def _answer(self) -> None:
        """Ask one question after the other, as long as readers come. Those that come meanwhile wait for the next."""
        try:
            while (question := self._next) is not None:
                self._next = None
                try:
                    question.answer(await self._ask_patiently())
                except Exception as error:
                    question.fail(error)
                except BaseException:
                    question.fail(StoreUnavailable("the store is stopping"))
                    raise
        finally:
            self._asking = None
            if self._next is not None:
                self._next.fail(StoreUnavailable("the store is stopping"))

    async def _ask_patiently(self) -> int:
        deadline = asyncio.get_running_loop().time() + FRESH_TIMEOUT_S
        while True:
            try:
                return await self._ask(self.link)
            except BROKEN:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(RECONNECT_S)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        await self.link.close()
        await self.own_link.close()


class _Question:
    """The readers that wait for one answer, with one timer for all."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(FRESH_TIMEOUT_S, self.fail, TimeoutError())
        self._readers: list[asyncio.Future[int]] = []

    def reader(self) -> asyncio.Future[int]:
        """Each has its own: a reader that is cancelled takes the answer from no other."""
        future = self._loop.create_future()
        self._readers.append(future)
        return future

    def answer(self, revision: int) -> None:
        self._timer.cancel()
        for future in self._readers:
            if not future.done():
                future.set_result(revision)

    def fail(self, error: Exception) -> None:
        self._timer.cancel()
        for future in self._readers:
            if not future.done():
                future.set_exception(error)
