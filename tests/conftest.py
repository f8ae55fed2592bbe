"""What several suites share: one embedded PostgreSQL a session, and a fresh database for each test that asks."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from fleet.store.embedded import EmbeddedPostgres
from fleet.store.migrate import migrate

TEMPLATE = "fleet_template"


@dataclass(frozen=True)
class Server:
    """The running server. `dsn_of(database)` is the address of one of its databases."""

    embedded: EmbeddedPostgres

    def dsn_of(self, database: str) -> str:
        return self.embedded.dsn_of(database)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A real PostgreSQL for the session. It belongs to no event loop; it ends with the session."""
    directory = Path(tempfile.mkdtemp(prefix="fleet-pg-"))
    embedded = EmbeddedPostgres(directory)
    try:
        asyncio.run(_start(embedded))
        yield Server(embedded)
    finally:
        asyncio.run(embedded.stop())
        shutil.rmtree(directory, ignore_errors=True)


async def _start(embedded: EmbeddedPostgres) -> None:
    """Start the server, and migrate a template, so that a fresh database is a file copy."""
    await embedded.start()
    connection = await asyncpg.connect(embedded.dsn_of("postgres"))
    await connection.execute(f"CREATE DATABASE {TEMPLATE}")
    await migrate(embedded.dsn_of(TEMPLATE))
    await connection.close()


@pytest.fixture
async def database_url(postgres_server: Server) -> AsyncIterator[str]:
    """A database of its own, with the schema of this release, dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres_server.dsn_of("postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    await connection.close()
    yield postgres_server.dsn_of(name)
    connection = await asyncpg.connect(postgres_server.dsn_of("postgres"))
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()
