"""A reader that is the only one of its user asks the database by itself, and waits for no other reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from api.store import follower
from api.store.postgres import PostgresStore
from fleet.values.ports import StoreUnavailable
from tests.api.store.world import PostgresWorld, eventually, key, must, put

SOON_S = 0.3
OWN = "fleet: ask"


async def read(store: PostgresStore, *, alone: bool) -> int:
    """The newest revision, within SOON_S."""
    async with asyncio.timeout(SOON_S):
        return await store.revision(alone=alone)


@asynccontextmanager
async def silent(dsn: str) -> AsyncIterator[None]:
    """Meanwhile no question about the newest revision is answered."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE log_state IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def backends(dsn: str) -> int:
    """The open connections of readers that are alone."""
    connection = await asyncpg.connect(dsn)
    try:
        found: int = await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", OWN)
        return found
    finally:
        await connection.close()


async def test_it_sees_what_another_process_wrote(postgres: PostgresWorld) -> None:
    store, other = await postgres.open(), await postgres.open()
    for number in range(20):
        await must(other, put("a", data={"n": str(number)}))
        found = await store.get(key("a"), alone=True)
        assert found is not None and found.body["data"] == {"n": str(number)}
    assert store._follower.own_link.open and not other._follower.own_link.open


async def test_it_waits_for_no_question_of_others(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    newest = (await must(store, put("a"))).revision
    async with store._follower.link.use():  # somebody else's question is on its way
        assert await read(store, alone=True) == newest
        with pytest.raises(TimeoutError):
            await read(store, alone=False)


async def test_the_second_of_two_shares_the_question_of_the_others(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    newest = (await must(store, put("a"))).revision
    async with store._follower.own_link.use():
        assert await read(store, alone=True) == newest


async def test_a_connection_that_the_database_ended_costs_no_answer(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    newest = (await must(store, put("a"))).revision
    await read(store, alone=True)
    connection = await asyncpg.connect(postgres.dsn)
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1"
    assert await connection.fetchval(ended, OWN)
    await connection.close()
    assert await read(store, alone=True) == newest
    await read(store, alone=True)
    assert store._follower.own_link.open


async def test_a_database_that_does_not_answer_is_unavailable(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "FRESH_TIMEOUT_S", 0.1)
    store = await postgres.open()
    await store.revision(alone=True)
    async with silent(postgres.dsn):
        with pytest.raises(StoreUnavailable):
            await store.revision(alone=True)
    await eventually(lambda: not store._follower.own_link.busy)
    async with asyncio.timeout(5):
        while True:  # the shared question hung as well
            try:
                await store.revision()
                return
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_readers_that_go_away_open_no_connection_each(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await postgres.open()
    monkeypatch.setattr(follower, "ABANDONED_S", 60.0)
    async with silent(postgres.dsn):
        with pytest.raises(TimeoutError):
            await read(store, alone=True)
    for _ in range(3):
        await read(store, alone=True)
    assert not store._follower.own_link.open and await backends(postgres.dsn) == 0
    store._follower._own_from = 0.0
    await read(store, alone=True)
    assert store._follower.own_link.open
