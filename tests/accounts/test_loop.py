"""The loop of the controllers records by itself, and a database that is away stops nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts.models import SCHEMA, JobRecord, UsageRecord
from fleet.accounts.schema import engine_of
from fleet.controllers.history.loop import HistoryLoop
from tests.accounts.stories import job
from tests.api.store.world import PATIENCE_S, eventually
from tests.controllers.world import World, member

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@contextlib.asynccontextmanager
async def recording(dsn: str) -> AsyncIterator[tuple[World, HistoryLoop]]:
    world = World(member("cfa"))
    await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    loop = HistoryLoop(world.hub, dsn)
    running = asyncio.create_task(loop.run())
    try:
        yield world, loop
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def count(engine: AsyncEngine, model: type) -> int:
    async with engine.connect() as connection:
        return await connection.scalar(sa.select(sa.func.count()).select_from(model)) or 0


async def test_a_hub_of_before_gets_its_tables_and_records_what_it_has(database_url: str) -> None:
    async with recording(database_url) as (world, loop), contextlib.AsyncExitStack() as stack:
        await world.apply(job("one"))
        revision = await world.store.revision()
        await eventually(lambda: loop.has(revision))
        engine = engine_of(database_url)
        stack.push_async_callback(engine.dispose)
        assert await count(engine, JobRecord) == 1
        for _ in range(int(PATIENCE_S / 0.05)):
            if await count(engine, UsageRecord):
                break
            await asyncio.sleep(0.05)
        assert await count(engine, UsageRecord) == 1, "the one member, in the minute that has begun"
        await world.delete("PyTorchJob", "one")
        gone = await world.store.revision()
        await eventually(lambda: loop.has(gone))
        deleted = {"leaf": "(none)", "outcome": "Deleted"}
        found = world.hub.metrics.registry.get_sample_value
        await eventually(lambda: found("fleet_jobs_finished_total", deleted) == 1)


async def test_a_database_that_is_away_is_said_and_tried_again(engine: AsyncEngine, database_url: str) -> None:
    async with recording(NOWHERE) as (world, loop):
        failing = world.hub.metrics.history_failing
        await eventually(lambda: failing._value.get() == 1)
        assert not loop.has(0)
        loop._dsn = database_url
        await world.apply(job("one"))
        revision = await world.store.revision()
        await eventually(lambda: loop.has(revision))
        assert failing._value.get() == 0
        connection = await asyncpg.connect(database_url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'fleet: history'"
        )
        await connection.close()
        await world.apply(job("two"))
        later = await world.store.revision()
        await eventually(lambda: loop.has(later))
        await engine.dispose()  # its connections were ended, too
        assert await count(engine, JobRecord) == 2


async def test_a_database_that_does_not_answer_leaves_the_history_behind(database_url: str) -> None:
    async with recording(database_url) as (world, loop):
        await world.apply(job("one"))
        revision = await world.store.revision()
        await eventually(lambda: loop.has(revision))
        connection = await asyncpg.connect(database_url)
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {SCHEMA}.{JobRecord.__tablename__}")
            await world.apply(job("two"))
            await eventually(lambda: lag(world) > 3)
        await connection.close()
        later = await world.store.revision()
        await eventually(lambda: loop.has(later) and lag(world) < 3)


def lag(world: World) -> float:
    return world.hub.metrics.registry.get_sample_value("fleet_history_lag_seconds") or 0.0
