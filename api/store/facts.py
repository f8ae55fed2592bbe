"""The state of the database that a hub works on, for `fleet doctor`: asked anew each time, with a bound."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import asyncpg

from api.store.link import BROKEN, why_away
from api.store.migrate import HEAD, version_of
from api.store.writable import trial
from fleet.values.ports import StoreUnavailable

TIMEOUT_S = 5.0
_FACTS = """
SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       current_setting('max_connections')::int AS most_connections,
       (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()) AS oldest_s
"""
_AFTER = """
SELECT revision, compacted, (SELECT at FROM events WHERE revision > $1 ORDER BY revision LIMIT 1) AS at FROM log_state
"""


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        connection = await asyncpg.connect(dsn, timeout=TIMEOUT_S)
        try:
            yield connection
        finally:
            await connection.close(timeout=TIMEOUT_S)
    except (*BROKEN, asyncpg.PostgresError) as error:
        raise StoreUnavailable(why_away(error)) from error


async def facts(dsn: str, wall: float) -> dict[str, Any]:
    """`wall`: this machine's time in epoch seconds now. Raises StoreUnavailable."""
    began = time.monotonic()
    async with _connected(dsn) as connection:
        row = await connection.fetchrow(_FACTS, timeout=TIMEOUT_S)
        asked_at = time.monotonic()
        database_time: float = await connection.fetchval(
            "SELECT extract(epoch FROM clock_timestamp())::float", timeout=TIMEOUT_S
        )
        answered = time.monotonic()
        schema = await version_of(connection)
    write = await trial(dsn)
    return {
        "version": row["version"],
        "schema": schema,
        "wanted": HEAD,
        "bytes": row["bytes"],
        "connections": row["connections"],
        "mostConnections": row["most_connections"],
        "oldestTransactionS": round(row["oldest_s"], 1),
        "roundTripMs": round((answered - asked_at) * 1000, 1),
        "writeMs": write.ms,
        "writeTrouble": write.trouble,
        "blockers": [asdict(one) for one in write.blockers],
        "aheadS": round(database_time - (wall + (asked_at + answered) / 2 - began), 3),
    }


async def log_after(dsn: str, revision: int) -> tuple[int, int, float | None]:
    """The changes after this revision: their number, how many of them have left the log, and the time of the first that
    is still in it. Raises StoreUnavailable."""
    async with _connected(dsn) as connection:
        row = await connection.fetchrow(_AFTER, revision, timeout=TIMEOUT_S)
    return max(0, row["revision"] - revision), max(0, row["compacted"] - revision), row["at"]
