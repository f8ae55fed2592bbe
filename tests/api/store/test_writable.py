"""Whether the database takes a write, and who keeps it from that: what `fleet doctor` says of locks."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from api.store.facts import facts
from api.store.writable import trial
from tests.api.store.world import PostgresWorld, must, put

LOCKS = ("LOCK TABLE objects", "LOCK TABLE log_state", "UPDATE log_state SET revision = revision")


async def test_a_database_that_works_takes_a_write_that_changes_nothing(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    before = await store.revision()
    done = await trial(postgres.dsn)
    assert done.ms is not None and (done.trouble, done.blockers) == ("", ())
    assert await store.revision() == before
    told = await facts(postgres.dsn, 0.0)
    assert told["writeMs"] is not None and (told["writeTrouble"], told["blockers"]) == ("", [])


@pytest.mark.parametrize("statement", LOCKS)
async def test_who_holds_the_lock_is_named_and_not_who_waits_for_it(postgres: PostgresWorld, statement: str) -> None:
    """A writer of the hub that waits holds the lock of all writers meanwhile."""
    store = await postgres.open()
    user = await asyncpg.connect(postgres.dsn, server_settings={"application_name": "psql"})
    await user.execute(f"BEGIN; {statement}")
    writing = asyncio.create_task(must(store, put("a")))
    await asyncio.sleep(0.3)
    try:
        found = await trial(postgres.dsn, 0.5)
        assert found.ms is None and [blocker.pid for blocker in found.blockers] == [user.get_server_pid()]
        assert "a write has not happened within 0.5 s" in found.trouble
        assert f"process {user.get_server_pid()} (user " in found.trouble
        assert "psql, idle in transaction" in found.trouble
    finally:
        await user.close()
    await writing
    assert (await trial(postgres.dsn)).ms is not None


async def test_a_database_that_is_away_or_refuses_says_so() -> None:
    found = await trial("postgresql://nobody@127.0.0.1:9/none", 0.5)
    assert found.ms is None and "cannot be reached" in found.trouble
