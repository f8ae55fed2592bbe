"""Tables stay within their bounds, and a database that was restored or went away is met with care."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from api.store.link import Link
from api.store.maintenance import Maintenance, Retention
from fleet.simulate.wall import WallClock
from fleet.values.ports import ExpiredRevision, StoreUnavailable
from tests.api.store.world import PATIENCE_S, PostgresWorld, eventually, key, must, names, put, take


class LaterClock(WallClock):
    """An hour ahead."""

    def now(self) -> float:
        return super().now() + 3600


async def tidy(world: PostgresWorld, retention: Retention, clock: WallClock | None = None) -> None:
    maintenance = Maintenance(Link(world.dsn, "test"), clock or WallClock(), retention)
    await maintenance.tidy()
    await maintenance.close()


async def rows(world: PostgresWorld, table: str) -> int:
    connection = await asyncpg.connect(world.dsn)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {table}"))
    finally:
        await connection.close()


async def test_young_events_are_kept_and_old_ones_go(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    await must(store, *(put(f"a{n}") for n in range(20)))
    await tidy(postgres, Retention(event_age_s=900))
    assert await rows(postgres, "events") == 20
    await tidy(postgres, Retention(event_age_s=900), LaterClock())
    assert await rows(postgres, "events") == 0
    assert await rows(postgres, "objects") == 20


async def test_events_beyond_the_count_go(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    start = (await must(store, *(put(f"a{n}") for n in range(20)))).revision
    await tidy(postgres, Retention(event_count=5))
    assert await rows(postgres, "events") == 5
    late = await postgres.open()
    assert len(await take(await late.watch("", "configmaps", since=start - 5), 5)) == 5
    with pytest.raises(ExpiredRevision):
        await late.watch("", "configmaps", since=start - 6)


async def test_another_process_learns_of_a_compaction(postgres: PostgresWorld) -> None:
    store, other = await postgres.open(), await postgres.open()
    start = await store.revision()
    await must(store, put("a"), put("b"))
    await take(await other.watch("", "configmaps", since=start), 2)
    await store.compact(start + 2)
    await other.revision()
    with pytest.raises(ExpiredRevision):
        await other.watch("", "configmaps", since=start)


async def test_the_oldest_history_goes_when_there_is_too_much(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    for number in range(10):
        await store.history("decision", {"number": number, "text": f"{number}" * 100})
    await tidy(postgres, Retention(history_bytes=500))
    kept = [row["number"] for row in await store.read_history("decision")]
    assert kept == [9, 8, 7, 6]


async def test_a_database_that_was_set_back_is_read_again(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    kept = (await must(store, put("kept"))).revision
    await must(store, put("lost"))
    watch = await store.watch("", "configmaps")
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(
        f"DELETE FROM events WHERE revision > {kept}; DELETE FROM objects WHERE revision > {kept};"
        f" UPDATE log_state SET revision = {kept}"
    )
    await connection.close()
    assert (await must(store, put("after"))).revision == kept + 1
    assert names((await store.list("", "configmaps")).items) == ["after", "kept"]
    with pytest.raises(ExpiredRevision):
        await watch.next(1.0)


async def test_a_database_that_is_not_there_is_unavailable(postgres: PostgresWorld) -> None:
    elsewhere = PostgresWorld(postgres.dsn.replace("test_", "no_such_"), postgres.key_file)
    with pytest.raises((StoreUnavailable, asyncpg.InvalidCatalogNameError)):
        await elsewhere.open()


async def test_reads_and_writes_go_on_after_all_connections_were_cut(postgres: PostgresWorld) -> None:
    store, other = await postgres.open(), await postgres.open()
    watch = await store.watch("", "configmaps")
    await must(store, put("before"))
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()
    await must(other, put("after"))
    assert await store.get(key("after")) is not None
    assert [event.stored.key.name for event in await take(watch, 2)] == ["before", "after"]
    await eventually(lambda: other.peek(key("before")) is not None)


async def test_a_stopped_store_refuses_writes_and_answers_the_accepted_ones(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    accepted = [asyncio.create_task(store.commit([put(f"a{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.stop()
    async with asyncio.timeout(PATIENCE_S):
        assert len([await task for task in accepted]) == 50
    with pytest.raises(StoreUnavailable):
        await store.commit([put("late")])
    assert await rows(postgres, "objects") == 50
