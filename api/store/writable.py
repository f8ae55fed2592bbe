"""Whether the database takes a write, timed with a bound, and who keeps it from that: for `fleet doctor`.

The write takes the locks of a batch of the hub's writer, and changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import asyncpg

from api.store import sql
from api.store.link import BROKEN, connect, why_away

BOUND_S = 2.0
BLOCKERS_MOST = 5
CHAIN_MOST = 8  # sessions of which each waits for the next
NAME = "fleet: doctor"
SETTINGS = {"statement_timeout": "10s"}  # a session that waits for a lock does not notice that its client is gone

_LOCKS = "LOCK TABLE objects, events, leaders IN ROW EXCLUSIVE MODE"
_WRITE = "UPDATE log_state SET revision = revision"
# The ends of the chain: a writer of the hub that waits itself is not to blame.
_BLOCKERS = f"""
WITH RECURSIVE waits(pid, depth) AS (
    SELECT $1::int, 0
    UNION
    SELECT b.pid, waits.depth + 1 FROM waits, unnest(pg_blocking_pids(waits.pid)) AS b(pid) WHERE depth < {CHAIN_MOST}
)
SELECT a.pid, coalesce(a.usename, '') AS user, a.application_name AS application, coalesce(a.state, '') AS state,
       coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float AS open_s
FROM pg_stat_activity a
WHERE a.pid IN (SELECT pid FROM waits WHERE depth > 0) AND cardinality(pg_blocking_pids(a.pid)) = 0
ORDER BY a.xact_start LIMIT {BLOCKERS_MOST}
"""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session of the database with a lock that a write waits for. `open_s`: since its transaction began."""

    pid: int
    user: str
    application: str
    state: str
    open_s: float

    def text(self) -> str:
        return f"process {self.pid} (user {self.user}, {self.application or 'no name'}, {self.state})"


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of a write. `ms`: how long it took, None when it did not happen; `trouble`: why, "" when it did."""

    ms: float | None
    trouble: str = ""
    blockers: tuple[Blocker, ...] = ()


async def trial(dsn: str, bound_s: float = BOUND_S) -> Trial:
    """The outcome of one write. Never raises for a database that does not take it."""
    try:
        connection = await connect(dsn, NAME, SETTINGS)
    except (*BROKEN, asyncpg.PostgresError) as error:
        return Trial(None, why_away(error))
    began = time.monotonic()
    writing = asyncio.create_task(_write(connection))
    try:
        done, _ = await asyncio.wait({writing}, timeout=bound_s)
        if not done:
            return await _late(dsn, connection.get_server_pid(), bound_s)
        writing.result()
        return Trial(round((time.monotonic() - began) * 1000, 1))
    except (*BROKEN, asyncpg.PostgresError) as error:
        return Trial(None, f"it refuses a write: {error}")
    finally:
        connection.terminate()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _write(connection: asyncpg.Connection) -> None:
    await connection.execute(sql.BEGIN)
    await connection.execute(_LOCKS)
    await connection.execute(_WRITE)
    await connection.execute("COMMIT")


async def _late(dsn: str, pid: int, bound_s: float) -> Trial:
    """The outcome of a write that waits. `pid`: the process of the database that it waits in."""
    text = f"a write has not happened within {bound_s:g} s"
    try:
        connection = await connect(dsn, NAME)
        try:
            rows = await connection.fetch(_BLOCKERS, pid, timeout=bound_s)
        finally:
            connection.terminate()
    except (*BROKEN, asyncpg.PostgresError) as error:
        return Trial(None, f"{text}, and the database does not say why: {error!r}")
    blockers = tuple(Blocker(**dict(row)) for row in rows)
    if not blockers:
        return Trial(None, f"{text}, and no session has a lock that it waits for")
    first = f"{blockers[0].text()} has had a lock in a transaction that is open for {blockers[0].open_s:.0f} s"
    more = f", and {len(blockers) - 1} more" if len(blockers) > 1 else ""
    return Trial(None, f"{text}: {first}{more}", blockers)
