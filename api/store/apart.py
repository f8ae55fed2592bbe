"""Commits apart from the batches of the process: on a connection of its own, by whichever event loop asks.

Such a commit needs neither the view nor the writer of the process, so the thread that shows life for a leader can make
it while the loop of the process is busy. It reads the objects that it changes from the database.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from api.store import sql
from api.store.evaluate import evaluate
from api.store.link import BROKEN, Link, why_away
from api.store.secrets import SecretBox
from api.store.writer import no_space
from fleet.values.ports import (
    Clock,
    CommitResult,
    Conflict,
    Key,
    StaleEpoch,
    StoredObject,
    StoreFull,
    StoreUnavailable,
    Write,
)


class ApartWriter:
    """`commit` as `Store` has it, for writes that may be repeated: an outcome that is not known raises
    StoreUnavailable."""

    def __init__(self, dsn: str, box: SecretBox, clock: Clock) -> None:
        self._link, self._box, self._clock = Link(dsn, "write apart", sql.BY_KEY), box, clock

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict:
        try:
            async with self._link.use() as connection:
                await connection.execute(sql.BEGIN)
                outcome = await self._written(connection, writes, epoch)
                await connection.execute("COMMIT")
                return outcome
        except (*BROKEN, asyncpg.PostgresError) as error:
            if no_space(error):
                raise StoreFull(f"the database has no space left: {error}") from error
            if not isinstance(error, BROKEN):
                raise
            raise StoreUnavailable(why_away(error)) from error

    async def _written(
        self, connection: asyncpg.Connection, writes: Sequence[Write], epoch: int | None
    ) -> CommitResult | Conflict:
        state = await connection.fetchrow(sql.STATE)
        if epoch is not None and epoch not in state["epochs"]:
            raise StaleEpoch(f"epoch {epoch} is over")
        stored: dict[Key, StoredObject] = {}
        for key in {write.key for write in writes}:
            row = await connection.fetchrow(sql.ONE, *key)
            if row is not None:
                stored[key] = sql.stored_of(row, self._box)
        result = evaluate(writes, stored.get, state["revision"], self._clock.now())
        if isinstance(result, Conflict):
            return result
        if result.events:
            bodies = sql.sealed(result.events, self._box)
            await connection.fetchval(sql.WRITE, *sql.write_arguments(result.events, bodies))
        return CommitResult(result.stored, result.events[-1].revision if result.events else state["revision"])

    async def close(self) -> None:
        await self._link.close()
