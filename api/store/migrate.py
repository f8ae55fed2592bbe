"""Brings a database to the schema that this release needs.

Migrations are forward-only. A file `pre_…` only adds, so the previous release goes on working on the new schema; a file
`post_…` removes what only the previous release needed, and runs when that is gone. When there is nothing to do, which
is nearly every start, neither Alembic nor SQLAlchemy is imported.
"""

from __future__ import annotations

import asyncpg
import structlog

from api import schemas
from fleet.values.ports import SchemaTooNew

log = structlog.get_logger(__name__)

HEAD = "0001_pre"  # the newest revision in migrations/store; a test holds the two together
MIGRATION_LOCK = 0x666C6565_0001  # advisory lock; another number than the writers'


async def migrate(dsn: str) -> bool:
    """Migrate the database if it needs it; True if it did. Safe from several processes at once."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        if await version_of(connection) == HEAD:
            return False
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK, timeout=600)
        version = await version_of(connection)
        if version == HEAD:
            return False
        if version is not None and version not in _known():
            if version.endswith("_post"):
                schema = await schemas.too_new(connection, "alembic_version", version, HEAD)
                raise SchemaTooNew(
                    f"the database {schema}: run that release, or restore a backup from before the upgrade"
                    " (fleet restore)"
                )
            log.warning("the database is newer than this release, and still carries it", schema=version, known=HEAD)
            return False
        await _upgrade(dsn)
        return True
    finally:
        await connection.close()  # gives the lock back


async def version_of(connection: asyncpg.Connection) -> str | None:
    """The revision of its schema; None for a database that was never migrated."""
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    version: str | None = await connection.fetchval("SELECT version_num FROM alembic_version")
    return version


def _known() -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(schemas.config("store")).walk_revisions()}


async def _upgrade(dsn: str) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    # asyncpg reads the DSN, not SQLAlchemy, so that both connect to the same place by the same rules.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn, timeout=10), poolclass=NullPool
    )
    try:
        await schemas.upgrade("store", engine)
    finally:
        await engine.dispose()
