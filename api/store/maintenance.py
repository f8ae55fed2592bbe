"""The limits on the growth of the tables: compaction of the log, retention of history; and the rewriting of secrets.

Any process may do it; a lock that is only tried keeps two from doing it at once. Everything goes in small pieces, so
that writers never wait long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from api.store import sql
from api.store.link import BROKEN, Link
from api.store.secrets import SecretBox
from fleet.values.ports import Clock, Key

log = structlog.get_logger(__name__)

EVERY_S = 60.0
CHUNK = 5000  # rows deleted or rewritten in one transaction
MAINTENANCE_LOCK = 0x666C6565_0003


@dataclass(frozen=True, slots=True)
class Retention:
    """Events younger than `event_age_s` are kept, at most `event_count`; history up to `history_bytes`."""

    event_age_s: float = 900.0
    event_count: int = 500_000
    history_bytes: int = 1 << 30


class Maintenance:
    def __init__(self, link: Link, clock: Clock, retention: Retention) -> None:
        self._link, self._clock, self._retention = link, clock, retention
        self.database_bytes: int | None = None  # at the last look

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.tidy()
            except BROKEN as error:
                log.debug("maintenance has to wait", error=repr(error))
            except Exception:  # comes again, and the store does without it for long
                log.exception("maintenance failed")
            await self._link.close()  # an idle connection costs the server memory

    async def close(self) -> None:
        await self._link.close()

    async def tidy(self) -> None:
        """Apply the retention once, unless another process is at it."""
        async with self._link.use() as connection:
            self.database_bytes = await connection.fetchval("SELECT pg_database_size(current_database())")
            if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", MAINTENANCE_LOCK):
                return
            try:
                oldest_kept = await connection.fetchval(
                    "SELECT revision FROM events WHERE at >= $1 ORDER BY revision LIMIT 1",
                    self._clock.now() - self._retention.event_age_s,
                )
                newest = await connection.fetchval("SELECT revision FROM log_state")
            finally:
                await connection.execute("SELECT pg_advisory_unlock($1)", MAINTENANCE_LOCK)
        by_age = newest if oldest_kept is None else oldest_kept - 1
        await self.compact(max(by_age, newest - self._retention.event_count))
        await self._shorten_history()

    async def compact(self, before: int) -> int:
        """Delete the events at or below the revision; returns the revision up to which they are gone."""
        async with self._link.use() as connection:
            compacted: int = await connection.fetchval(
                "UPDATE log_state SET compacted = greatest(compacted, least($1::bigint, revision)) RETURNING compacted",
                before,
            )
        while True:
            async with self._link.use() as connection:
                done = await connection.execute(
                    "DELETE FROM events WHERE revision IN"
                    " (SELECT revision FROM events WHERE revision <= $1 ORDER BY revision LIMIT $2)",
                    compacted,
                    CHUNK,
                )
            if done != f"DELETE {CHUNK}":
                return compacted

    async def raise_to(self, revision: int) -> None:
        """Under the writers' lock: every process finds its view before the log's beginning, and reads all objects
        again. The events so far are compacted in turn."""
        async with self._link.use() as connection:
            await connection.execute(sql.BEGIN)
            await connection.execute(
                "UPDATE log_state SET revision = $1, compacted = $1 WHERE revision < $1::bigint", revision
            )
            await connection.execute("COMMIT")

    async def _shorten_history(self) -> None:
        async with self._link.use() as connection:
            await connection.execute(
                "DELETE FROM history WHERE id <= (SELECT max(id) FROM (SELECT id, sum(pg_column_size(body))"
                " OVER (ORDER BY id DESC) AS bytes FROM history) AS rows WHERE bytes > $1)",
                self._retention.history_bytes,
            )

    async def reencrypt(self, box: SecretBox) -> int:
        """Rewrite the rows of `objects` and `events` that an older key encrypted; returns how many."""
        rewritten = 0
        for table in ("objects", "events"):
            while True:
                async with self._link.use() as connection:
                    await connection.execute(sql.BEGIN)
                    rows = await connection.fetch(
                        f'SELECT ctid, "group", resource, namespace, name, key_id, body FROM {table}'
                        " WHERE key_id IS NOT NULL AND key_id <> $1 LIMIT $2",
                        box.current,
                        CHUNK,
                    )
                    for row in rows:
                        key = Key(row["group"], row["resource"], row["namespace"], row["name"])
                        key_id, body = box.seal(key, box.open(key, row["key_id"], row["body"]))
                        await connection.execute(
                            f"UPDATE {table} SET key_id = $2, body = $3 WHERE ctid = $1", row["ctid"], key_id, body
                        )
                    await connection.execute("COMMIT")
                rewritten += len(rows)
                if len(rows) < CHUNK:
                    break
        return rewritten
