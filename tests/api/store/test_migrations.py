"""Migrations lead to the tables that the code declares, once, and from several processes at once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from api import schemas
from api.store.migrate import HEAD, migrate
from api.store.tables import metadata
from fleet.values.ports import SchemaTooNew
from tests.conftest import Server


@pytest.fixture
async def empty_database(postgres_server: Server) -> AsyncIterator[str]:
    name = f"empty_{uuid.uuid4().hex}"
    admin = await asyncpg.connect(postgres_server.dsn_of("postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    yield postgres_server.dsn_of(name)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


async def test_migrations_build_the_declared_tables(empty_database: str) -> None:
    assert await migrate(empty_database) is True

    def differences(connection: Connection) -> object:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(empty_database))
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_a_second_migration_has_nothing_to_do(empty_database: str) -> None:
    assert await migrate(empty_database) is True
    assert await migrate(empty_database) is False


async def test_several_processes_migrate_at_once_and_one_does_it(empty_database: str) -> None:
    assert sorted(await asyncio.gather(*(migrate(empty_database) for _ in range(4)))) == [False, False, False, True]


def test_the_head_that_the_code_names_is_the_newest_migration() -> None:
    scripts = ScriptDirectory.from_config(schemas.config("store"))
    assert scripts.get_heads() == [HEAD]
    for script in scripts.walk_revisions():
        number, phase = script.revision.split("_")
        assert f"/{phase}_{number}_" in script.path, "a file is named after its phase and number"


@pytest.mark.parametrize(("stored", "refused"), [("9999_pre", False), ("9999_post", True)])
async def test_a_newer_schema_is_used_while_it_still_carries_this_release(
    database_url: str, stored: str, refused: bool
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE alembic_version SET version_num = $1", stored)
    await connection.close()
    if refused:
        with pytest.raises(SchemaTooNew, match="9999_post"):
            await migrate(database_url)
    else:
        assert await migrate(database_url) is False
