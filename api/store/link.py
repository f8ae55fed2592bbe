"""One connection to PostgreSQL that comes back: opened when needed, dropped when broken, one user at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import asyncpg

CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 30.0
IDLE_IN_TRANSACTION_S = 5  # a process that is stopped between two statements must not keep the writers' lock for ever

# The errors of a server that is away, restarting, or has cut us off: worth trying again.
BROKEN = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,  # too many connections, disk full, out of memory
    asyncpg.InternalClientError,
)


def why_away(error: BaseException) -> str:
    """The sentence about a database that gave this error, one of BROKEN, in place of an answer."""
    if isinstance(error, TimeoutError):
        return "the database does not answer in time"
    return f"the database cannot be reached: {str(error) or type(error).__name__}"


class Link:
    """`async with link.use() as connection`: the connection, for this task alone until the block ends.

    A block that fails with one of BROKEN, or is cancelled, leaves no half-finished transaction: its connection is
    closed and the next block gets a new one.
    """

    def __init__(self, dsn: str, name: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings`: of the connection, for PostgreSQL."""
        self._dsn, self.name = dsn, f"fleet: {name}"  # as pg_stat_activity shows it
        self._settings = settings or {}
        self.failures = 0  # blocks that the database, or the way to it, ended
        self._connection: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[asyncpg.Connection]:
        async with self._lock:
            connection = self._connection
            try:
                if connection is None or connection.is_closed():
                    connection = self._connection = await connect(self._dsn, self.name, self._settings)
                yield connection
            except BaseException as error:
                self.failures += isinstance(error, (*BROKEN, asyncpg.PostgresError))
                self._connection = None
                if connection is not None:
                    connection.terminate()
                raise

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    @property
    def open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def close(self) -> None:
        async with self._lock:
            connection, self._connection = self._connection, None
            await let_go(connection)


async def connect(dsn: str, name: str, settings: Mapping[str, str] | None = None) -> asyncpg.Connection:
    """A connection that shows up as `name` in pg_stat_activity."""
    return await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        server_settings={
            "application_name": name,
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S}s",
            **(settings or {}),
        },
    )


async def let_go(connection: asyncpg.Connection | None) -> None:
    """Close a connection that may be broken, or closed, already."""
    if connection is not None and not connection.is_closed():
        with contextlib.suppress(*BROKEN):
            await connection.close(timeout=2)
