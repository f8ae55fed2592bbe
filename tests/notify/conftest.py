"""Certificates of real servers on loopback, and a client that may reach them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.outgoing import AllowList, OutgoingClient
from fleet.accounts.schema import engine_of, prepare
from tests.testbed.pki import Pki, make_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder: Path = tmp_path_factory.mktemp("notify")
    return make_pki(folder / "pki")


@pytest.fixture
async def outgoing() -> AsyncIterator[OutgoingClient]:
    async def looked_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with OutgoingClient(AllowList.parse(["127.0.0.0/8"]), resolver=looked_up) as made:
        yield made


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    await prepare(database_url)
    made = engine_of(database_url)
    yield made
    await made.dispose()
