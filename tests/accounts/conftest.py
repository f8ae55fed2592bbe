"""A database with the schema of the history, beside the store's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts.schema import engine_of, prepare


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    await prepare(database_url)
    made = engine_of(database_url)
    yield made
    await made.dispose()
