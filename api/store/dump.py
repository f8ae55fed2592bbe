"""A database as tables in files, and back: for backups.

A dump is one snapshot of the database, taken beside the processes that go on writing. The log of changes is left out:
every watch of before has to begin anew after a load, so nobody reads the old log. A load is one transaction on a
database that no process of a hub uses. The load raises the revision and the epochs, so that nothing that an undone past
used is used twice (I5).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import IO, Any

import asyncpg

from api.store.link import BROKEN, CONNECT_TIMEOUT_S, why_away
from api.store.migrate import migrate, version_of
from api.store.sql import COMMIT_LOCK
from fleet.values.ports import Key, SchemaTooNew

TABLES: Mapping[str, tuple[str, ...]] = {
    "objects": ("group", "resource", "namespace", "name", "uid", "revision", "key_id", "body"),
    "leaders": ("name", "holder", "epoch"),
    "history": ("id", "kind", "at", "body"),
}
NAME = "fleet: backup"  # of the connection; every process of a hub names its connections so
LOCK_WAIT = "10s"
HUB_PROCESSES = """
    SELECT array_agg(DISTINCT application_name ORDER BY application_name) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'fleet: %'
"""
OBJECT = 'SELECT body FROM objects WHERE "group" = $1 AND resource = $2 AND namespace = $3 AND name = $4'
AMEND = (
    'UPDATE objects SET body = $5, revision = $6 WHERE "group" = $1 AND resource = $2 AND namespace = $3 AND name = $4'
)

Amend = Callable[[bytes, int], bytes]  # the body of an object, and the revision that it is written at


class DumpFailure(Exception):
    """The database cannot be dumped or loaded; the text says why."""


@dataclass(frozen=True, slots=True)
class Content:
    """A database at a look. `schema` None: no process of a hub ever used it."""

    schema: str | None
    revision: int = 0
    objects: int = 0
    keys: frozenset[str] = frozenset()  # ids of the keys that its Secrets are encrypted with

    @property
    def empty(self) -> bool:
        return self.objects == 0


class Dump:
    """One snapshot of a database; it does not move while the hub works."""

    def __init__(self, connection: asyncpg.Connection, content: Content) -> None:
        self._connection = connection
        self.content = content

    async def write(self, table: str, output: IO[bytes]) -> int:
        """The rows of the table, in PostgreSQL's own binary form; returns how many."""
        order = "id" if table == "history" else "1"
        query = f"SELECT {_columns(table)} FROM {table} ORDER BY {order}"
        copied = self._connection.copy_from_query(query, output=output, format="binary")
        done = await _cut_off_with_us(self._connection, copied)
        return int(done.rpartition(" ")[2])

    async def body(self, key: Key) -> bytes | None:
        """The body of an object that is not encrypted; None where there is none."""
        return await _body(self._connection, key)


@contextlib.asynccontextmanager
async def dump(dsn: str) -> AsyncIterator[Dump]:
    """A snapshot of the database, for the length of the block. Raises DumpFailure."""
    async with _connected(dsn) as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield Dump(connection, await _look(connection))


async def look(dsn: str) -> Content:
    """The content of the database. Raises DumpFailure, also where a process of a hub uses it."""
    async with _connected(dsn) as connection:
        await _alone(connection)
        return await _look(connection)


async def load(
    dsn: str,
    tables: Mapping[str, IO[bytes]],
    revision: int,
    raised: int,
    *,
    amend: Mapping[Key, Amend],
    replace: bool,
    at_the_end: Callable[[], None],
) -> None:
    """Fill the database with dumped tables of `revision`, all or nothing. `raised`: the revision that it goes on at;
    `amend`: objects that are written anew at the first revision after the dumped ones; `replace`: other content goes;
    `at_the_end`: called when all is there but the commit. Raises DumpFailure."""
    try:
        await migrate(dsn)
    except (SchemaTooNew, asyncpg.PostgresError, *BROKEN) as error:
        raise DumpFailure(f"the database cannot be prepared: {error}") from error
    async with _connected(dsn) as connection:
        await connection.execute(f"BEGIN; SET LOCAL lock_timeout = '{LOCK_WAIT}'")
        await connection.execute(f"SELECT pg_advisory_xact_lock({COMMIT_LOCK})")
        await connection.execute("LOCK TABLE objects, events, log_state, leaders, history IN ACCESS EXCLUSIVE MODE")
        await _alone(connection)
        if not replace and not (await _look(connection)).empty:
            raise DumpFailure("the database is not empty")
        await connection.execute("TRUNCATE objects, events, leaders, history")
        for table, rows in tables.items():
            columns = TABLES[table]
            copied = connection.copy_to_table(table, source=rows, columns=columns, format="binary")
            await _cut_off_with_us(connection, copied)
        for key, change in amend.items():
            body = await _body(connection, key)
            if body is not None:
                names = (key.group, key.resource, key.namespace, key.name)
                await connection.execute(AMEND, *names, change(body, revision + 1), revision + 1)
        if await connection.fetchval("SELECT max(revision) FROM objects WHERE revision > $1", revision + 1):
            raise DumpFailure(f"there are objects past its revision {revision}")
        await connection.execute("UPDATE log_state SET revision = $1, compacted = $1", raised)
        await connection.execute("UPDATE leaders SET epoch = greatest(epoch, $1::bigint)", raised)
        await connection.execute(
            "SELECT setval(pg_get_serial_sequence('history', 'id'), (SELECT max(id) FROM history))"
        )
        at_the_end()
        await connection.execute("COMMIT")


@contextlib.asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        settings = {"application_name": NAME, "statement_timeout": "0"}
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S, server_settings=settings)
    except (asyncpg.PostgresError, ValueError, *BROKEN) as error:
        raise DumpFailure(why_away(error)) from error
    try:
        yield connection
    except (asyncpg.PostgresError, *BROKEN) as error:
        raise DumpFailure(f"the database refuses: {error}") from error
    else:
        with contextlib.suppress(*BROKEN):
            await connection.close(timeout=CONNECT_TIMEOUT_S)
    finally:
        connection.terminate()  # where it is open still, the server rolls back


async def _cut_off_with_us(connection: asyncpg.Connection, copying: Coroutine[Any, Any, str]) -> str:
    """The result. A command that is interrupted does not wait for the server's leave to stop."""
    task = asyncio.ensure_future(copying)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        connection.terminate()
        await asyncio.wait([task], timeout=CONNECT_TIMEOUT_S)
        if task.done() and not task.cancelled():
            task.exception()  # of the connection that was cut
        raise


async def _look(connection: asyncpg.Connection) -> Content:
    schema = await version_of(connection)
    if schema is None:
        return Content(None)
    row = await connection.fetchrow(
        "SELECT (SELECT revision FROM log_state) AS revision, count(*) AS objects,"
        " array_agg(DISTINCT key_id) FILTER (WHERE key_id IS NOT NULL) AS keys FROM objects"
    )
    return Content(schema, row["revision"] or 0, row["objects"], frozenset(row["keys"] or ()))


async def _alone(connection: asyncpg.Connection) -> None:
    found = await connection.fetchval(HUB_PROCESSES)
    if found:
        raise DumpFailure(f"a hub works on the database ({', '.join(found)}): stop its processes first")


async def _body(connection: asyncpg.Connection, key: Key) -> bytes | None:
    body: bytes | None = await connection.fetchval(OBJECT, key.group, key.resource, key.namespace, key.name)
    return body


def _columns(table: str) -> str:
    return ", ".join(f'"{name}"' for name in TABLES[table])
