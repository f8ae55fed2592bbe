"""Months that are old go, the name of a user is forgotten, usage is sampled by the minute."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts import partitions, rows
from fleet.accounts.fold import JobLife
from fleet.accounts.models import AttemptRecord, JobRecord, UsageRecord, WaitRecord
from fleet.accounts.retention import erase, retain
from fleet.accounts.run import AttemptRun, ModelGpus
from fleet.accounts.usage import QueueLimits, sample

NOW = 1_790_000_000.0  # 2026-09-21
DAY = 86_400.0


def life(number: int, user: str, submitted: float = NOW - 600, **more: Any) -> JobLife:
    run = AttemptRun(1, submitted + 10, "cfa", (ModelGpus("H200", 8),), submitted + 20, counted=submitted + 20)
    uid = f"00000000-0000-4000-8000-{number:012d}"
    queued: dict[str, Any] = {"queue": "root/a", "gpus": 8, "pods": 1, "state": "Running", "run": run, **more}
    return JobLife(
        uid, submitted, "team-a", f"job-{number}", "PyTorchJob", user, waits={"BehindInQueue": 5.0}, **queued
    )


async def test_a_life_comes_back_from_the_tables_as_it_was(engine: AsyncEngine) -> None:
    one, two = life(1, "alice"), life(2, "bob", run=None, spell=("BehindInQueue", NOW - 60), state="Queued")
    async with engine.begin() as connection:
        await rows.write(connection, [one, two])
        assert await rows.load(connection, [one.uid, two.uid]) == {one.uid: one, two.uid: two}


async def test_a_user_who_is_forgotten_stays_forgotten_while_her_job_goes_on(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await rows.write(connection, [life(1, "alice"), life(2, "bob")])
        assert await erase(connection, "alice") == 3
        await rows.write(connection, [life(1, "alice")])  # of a recorder that had read her name before
        names = {name for (name,) in await connection.execute(sa.select(JobRecord.user))}
        assert names == {None, "bob"}
        loaded = await rows.load(connection, [life(1, "").uid])
        await rows.write(connection, loaded.values())
        for model in (AttemptRecord, WaitRecord):
            assert {name for (name,) in await connection.execute(sa.select(model.user))} == {None, "bob"}
        assert await erase(connection, "alice") == 0


async def test_months_go_by_table_when_all_their_days_are_too_old(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        for age in (0, 40, 100):
            await partitions.ensure(connection, partitions.month_of(rows.instant(NOW - age * DAY)))
        dropped = await retain(connection, NOW, job_days=60, usage_days=0)
        assert dropped == ["jobs_2026_06", "attempts_2026_06", "waits_2026_06"]
        assert await retain(connection, NOW, job_days=60, usage_days=10) == ["usage_2026_06", "usage_2026_08"]


async def test_a_minute_is_sampled_once_from_what_goes_on(engine: AsyncEngine) -> None:
    waiting = life(3, "carol", run=None, state="Queued", queue="root/b")
    async with engine.begin() as connection:
        await rows.write(connection, [life(1, "alice"), life(2, "bob"), waiting])
        queues = {"root/a": QueueLimits(8.0, 32.0), "root/c": QueueLimits()}
        assert await sample(connection, NOW, {("cfa", "H200"): 32.0, ("cfb", "A100"): 8.0}, queues) == 5
        await sample(connection, NOW + 1, {}, {})
        found = {
            (row.scope, row.name, row.model): (row.used, row.waiting, row.capacity, row.guaranteed)
            for row in await connection.execute(sa.select(UsageRecord.__table__))
        }
    assert found == {
        ("member", "cfa", "H200"): (16.0, 0.0, 32.0, None),
        ("member", "cfb", "A100"): (0.0, 0.0, 8.0, None),
        ("queue", "root/a", ""): (16.0, 0.0, 32.0, 8.0),
        ("queue", "root/b", ""): (0.0, 8.0, None, 0.0),
        ("queue", "root/c", ""): (0.0, 0.0, None, 0.0),
    }
