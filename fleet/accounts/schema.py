"""Brings the PostgreSQL schema `accounts` of a database up to date.

Migrations are forward-only and lie in `migrations/accounts`. Their version is kept in
`accounts.alembic_version`, apart from the store's, so that the history may lie in a database of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from api import schemas
from fleet.accounts.models import SCHEMA
from fleet.values.ports import SchemaTooNew

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

HEAD = "0003_pre"  # the newest revision in migrations/accounts; a test holds the two together
MIGRATION_LOCK = 0x666C6565_0004  # advisory lock; another number than the store's
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0


def engine_of(dsn: str, *, pool_size: int = 2) -> AsyncEngine:
    """An engine over asyncpg, which reads the DSN itself: both libraries then connect by the same rules."""
    from sqlalchemy.ext.asyncio import create_async_engine

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(
            dsn,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings={"application_name": "fleet: history", "timezone": "UTC"},
        ),
        pool_size=pool_size,
        max_overflow=0,
        pool_pre_ping=True,
    )


async def prepare(dsn: str) -> bool:
    """Migrate the schema if it needs it; True if it did. Safe from several processes at once. A newer release's schema
    is left as it is while its migrations only add (`pre`). Raises SchemaTooNew after one that removes (`post`)."""
    connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
    try:
        if await version_of(connection) == HEAD:
            return False
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK, timeout=600)
        version = await version_of(connection)
        if version == HEAD:
            return False
        if version is not None and _number(version) > _number(HEAD):
            if version.endswith("_post"):
                schema = await schemas.too_new(connection, f"{SCHEMA}.alembic_version", version, HEAD)
                raise SchemaTooNew(f"the history {schema}: run that release, or give the history a database of its own")
            return False
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await _upgrade(dsn)
        return True
    finally:
        await connection.close()  # gives the lock back


async def version_of(connection: asyncpg.Connection) -> str | None:
    """The revision of the schema; None for a database without a history."""
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.alembic_version") is None:
        return None
    version: str | None = await connection.fetchval(f"SELECT version_num FROM {SCHEMA}.alembic_version")
    return version


def _number(version: str) -> int:
    return int(version.partition("_")[0])


async def _upgrade(dsn: str) -> None:
    engine = engine_of(dsn)
    try:
        await schemas.upgrade("accounts", engine)
    finally:
        await engine.dispose()
