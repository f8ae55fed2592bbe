"""The migrations of this release, and how Alembic runs them: for a hub that starts, and for the command `alembic`.

Alembic and SQLAlchemy are imported where they are used, since nearly every start has nothing to migrate.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.values.release import running

if TYPE_CHECKING:
    import asyncpg
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from sqlalchemy import MetaData
    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGED = _ROOT / "fleet" / "migrations"  # in the wheel; a checkout has them at its top
MIGRATIONS = _PACKAGED if _PACKAGED.exists() else _ROOT / "migrations"
LOCK_WAIT_S = 600


def config(name: str, connection: Connection | None = None) -> Config:
    """Alembic's configuration of the migrations `name`: `store` or `accounts`."""
    from alembic.config import Config

    return Config(MIGRATIONS / "alembic.ini", ini_section=name, attributes={"connection": connection})


async def upgrade(name: str, engine: AsyncEngine, revision: str = "head") -> None:
    """Migrate the database of the engine; the caller holds the lock, and disposes of the engine."""
    from alembic import command

    async with engine.begin() as connection:
        await connection.run_sync(lambda one: command.upgrade(config(name, one), revision))


async def too_new(connection: asyncpg.Connection, table: str, version: str, known: str) -> str:
    """Whose schema this is, for one that this release does not know. The release that migrated last has left its number
    as the comment on the table of versions."""
    writer = await connection.fetchval("SELECT obj_description(to_regclass($1), 'pg_class')", table)
    release = f"the release {writer}" if writer else "a newer release"
    return f"has the schema {version} of {release}, and this release, {running().version}, knows {known}"


def run(metadata: MetaData, *, lock: int, variables: tuple[str, ...], schema: str | None = None) -> None:
    """Run what Alembic was asked for, in an `env.py`: on the connection that a hub hands over, else under the lock on
    the database that the first set of the environment variables names. `schema` holds the version table."""
    from alembic import context
    from alembic.util import CommandError
    from sqlalchemy import text

    def name_writer(ctx: MigrationContext, *_: object, **__: object) -> None:
        statement = f"COMMENT ON TABLE {f'{schema}.' if schema else ''}alembic_version IS '{running().version}'"
        ctx.impl.execute(text(statement))

    def migrate(connection: Connection) -> None:
        context.configure(
            connection=connection,
            target_metadata=metadata,
            version_table_schema=schema,
            include_schemas=bool(schema),
            include_name=lambda name, kind, _: kind != "schema" or name == schema,
            on_version_apply=name_writer,
        )
        with context.begin_transaction():
            context.run_migrations()

    given: Connection | None = context.config.attributes.get("connection")
    if given is not None:
        migrate(given)
        return
    if context.is_offline_mode():
        raise CommandError("the migrations read the database that they change: leave out --sql")
    dsn = next((value for name in variables if (value := os.environ.get(name))), None)
    if dsn is None:
        raise CommandError(f"no database: set {' or '.join(variables)} to postgresql://USER:PASSWORD@HOST/DATABASE")
    asyncio.run(_alone(dsn, lock, schema, migrate))


async def _alone(dsn: str, lock: int, schema: str | None, migrate: Callable[[Connection], None]) -> None:
    import asyncpg
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn, timeout=10), poolclass=NullPool
    )
    holder = await asyncpg.connect(dsn, timeout=10)
    try:
        await holder.execute("SELECT pg_advisory_lock($1)", lock, timeout=LOCK_WAIT_S)
        if schema:
            await holder.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        async with engine.begin() as connection:
            await connection.run_sync(migrate)
    finally:
        await holder.close()  # gives the lock back
        await engine.dispose()
