"""One suite for every store: each test that takes `world` runs on memory and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.store.world import MemoryWorld, PostgresWorld, World


@pytest.fixture(params=["memory", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A place to open stores in: `await world.open()` may be called several times, for the same objects."""
    made: World
    if request.param == "memory":
        made = MemoryWorld()
    else:
        made = PostgresWorld(request.getfixturevalue("database_url"), tmp_path / "keys.json")
    yield made
    await made.close()


@pytest.fixture
async def postgres(database_url: str, tmp_path: Path) -> AsyncIterator[PostgresWorld]:
    """As `world`, for what only a database can show."""
    made = PostgresWorld(database_url, tmp_path / "keys.json")
    yield made
    await made.close()
