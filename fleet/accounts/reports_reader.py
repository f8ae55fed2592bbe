"""Reads the database of the history for reports: a bounded number of connections, each query bounded in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import asyncpg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from fleet.accounts.models import Cursor, JobRecord, UsageRecord
from fleet.accounts.retention import erase
from fleet.accounts.schema import engine_of
from fleet.values.times import seconds

CONNECTIONS = 3  # one report asks up to three things at once
WORK_MEM = "64MB"  # of one query: a sort of a million waits then stays in memory
T = TypeVar("T")
NOTHING = ("42P01", "3F000", "22021")  # of PostgreSQL: no such table, no such schema, no text that it could hold


class HistoryUnavailable(Exception):
    """The database of the history does not answer, or not in time."""


class HistoryReader:
    """One history. A database without its schema is an empty one: nothing has been recorded there yet."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._engine: AsyncEngine | None = None

    @property
    def engine(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = engine_of(self._dsn, pool_size=CONNECTIONS)
        return self._engine

    async def rows(self, statement: sa.Executable) -> Sequence[Any]:
        """The rows of one query. Raises HistoryUnavailable."""

        async def read(connection: AsyncConnection) -> Sequence[Any]:
            await connection.execute(sa.text(f"SET LOCAL work_mem = '{WORK_MEM}'"))
            return list(await connection.execute(statement))

        return await self._done(read, ())

    async def together(self, *statements: sa.Executable) -> list[Sequence[Any]]:
        """The rows of several queries, which run side by side."""
        return list(await asyncio.gather(*(self.rows(statement) for statement in statements)))

    async def since(self) -> datetime | None:
        """Since when the hub records, or else the time of the oldest record; None: nothing is recorded yet."""
        begun, oldest, minute = await self.together(
            sa.select(Cursor.state), sa.select(sa.func.min(JobRecord.submitted)), sa.select(sa.func.min(UsageRecord.at))
        )
        for (state,) in begun:
            if (said := seconds((state or {}).get("since"))) is not None:
                return datetime.fromtimestamp(said, UTC)
        return min((row[0] for row in (*oldest, *minute) if row[0] is not None), default=None)

    async def cursor(self) -> tuple[int, dict[str, Any]] | None:
        """The revision up to which the history is written, and its state (`since`, `gaps`); None: nothing is yet."""
        found = await self.rows(sa.select(Cursor.revision, Cursor.state))
        return (found[0].revision, found[0].state or {}) if found else None

    async def changed(self, statement: sa.Update) -> int:
        """The number of rows that one statement has changed. Raises HistoryUnavailable."""

        async def change(connection: AsyncConnection) -> int:
            return (await connection.execute(statement)).rowcount

        return await self._done(change, 0)

    async def erase(self, user: str) -> int:
        """Take the name of a user out of all rows; the number of these. Raises HistoryUnavailable."""
        return await self._done(lambda connection: erase(connection, user), 0)

    async def _done(self, work: Callable[[AsyncConnection], Awaitable[T]], nothing: T) -> T:
        """The outcome of one transaction; `nothing` where there is no history yet, or none that could match. Raises
        HistoryUnavailable."""
        try:
            async with self.engine.begin() as connection:
                return await work(connection)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in NOTHING:
                return nothing
            raise HistoryUnavailable(str(error.orig)) from error
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, PoolTimeout) as error:
            raise HistoryUnavailable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.dispose()
