"""Tokens in the database: every API process knows them, nobody reads them there, and an older file is taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from api.access.auth import AUTHENTICATED, AdministratorsToken, TokenFile
from api.access.storedtokens import GROUP, TOKENS, StoredTokens
from api.store.memory import MemoryStore
from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import Store, StoredObject

FILE = """# people
admin-token,admin,admin,"system:masters"
by-hand,ann,1,"a, b"
broken
old,bob,2,,2001-01-01T00:00:00Z
"""


class Hand(WallClock):
    at = 1_800_000_000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = MemoryStore(WallClock())
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text(FILE)
    return path


async def test_a_token_made_or_ended_in_one_process_counts_in_the_others(database_url: str, tmp_path: Path) -> None:
    clock = WallClock()
    stores = [PostgresStore(database_url, clock, secret_key_file=tmp_path / "secrets.key") for _ in range(2)]
    for one in stores:
        await one.start()
    try:
        here, there = (StoredTokens(one, clock) for one in stores)
        name, token = await here.add("ann", ("team-a",), inf)
        found = await there.user(token)  # asked at once
        assert found is not None and (found.name, found.groups) == ("ann", ("team-a", AUTHENTICATED))
        assert [one.id for one in await there.listed()] == [name.id]
        assert await here.end(name.id) == name
        watch = await stores[1].watch(GROUP, TOKENS, since=await stores[1].revision())
        await watch.aclose()  # the other process has seen the end by now
        assert await there.user(token) is None and await here.end(name.id) is None
    finally:
        for one in stores:
            await one.stop()


async def test_no_token_is_stored(store: Store) -> None:
    _, token = await StoredTokens(store, WallClock()).add("ann", (), inf)
    (stored,) = store.scan(GROUP, TOKENS)
    assert token.encode() not in stored.raw and token not in stored.key.name


async def test_a_token_ends_at_its_time(store: Store) -> None:
    clock = Hand()
    tokens = StoredTokens(store, clock)
    _, token = await tokens.add("ann", (), clock.at + 60)
    assert await tokens.user(token) is not None
    clock.at += 60
    assert await tokens.user(token) is None


async def test_tokens_that_nobody_knows_ask_the_database_seldom(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, asked = StoredTokens(store, WallClock()), 0
    get = store.get

    async def counted(*arguments: Any, **named: Any) -> StoredObject | None:
        nonlocal asked
        asked += 1
        return await get(*arguments, **named)

    monkeypatch.setattr(store, "get", counted)
    for number in range(100):
        assert await tokens.user(f"{number:043d}") is None
        assert await tokens.user("a.b.c") is None  # of an issuer
    assert asked < 50


async def test_the_tokens_of_a_file_are_taken_over_once(store: Store, file: Path) -> None:
    tokens = StoredTokens(store, WallClock(), file)
    await asyncio.gather(tokens.take_over(), StoredTokens(store, WallClock(), file).take_over())
    ann = await tokens.user("by-hand")
    assert ann is not None and (ann.name, ann.uid, ann.groups) == ("ann", "1", ("a", "b", AUTHENTICATED))
    assert await tokens.user("old") is None, "its time was over"
    assert await tokens.user("admin-token") is None, "it stays in the file"
    assert [(one.user, one.own) for one in await tokens.listed()] == [("admin", True), ("ann", False), ("bob", False)]
    for one in await tokens.listed():
        if not one.own:
            await tokens.end(one.id)
    await tokens.take_over()
    assert await tokens.user("by-hand") is None


async def test_the_administrators_token_is_the_first_of_the_file_alone(store: Store, file: Path) -> None:
    own = TokenFile(file, WallClock(), most=1)
    admin = await own.user("admin-token")
    assert admin is not None and admin.name == "admin" and await own.user("by-hand") is None
    tokens = StoredTokens(store, WallClock(), file)
    with pytest.raises(AdministratorsToken):
        await tokens.end((await tokens.listed())[0].id)
