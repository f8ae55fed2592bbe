"""The migrations of the history lead to the declared tables; months are made and dropped."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from api import schemas
from fleet.accounts import partitions
from fleet.accounts.models import SCHEMA, Base, JobRecord, WaitRecord
from fleet.accounts.schema import HEAD, engine_of, prepare
from fleet.values.ports import SchemaTooNew


async def test_migrations_build_the_declared_tables(engine: AsyncEngine) -> None:
    def differences(connection: Connection) -> object:
        options = {
            "compare_type": True,
            "include_schemas": True,
            "version_table_schema": SCHEMA,
            "include_name": lambda name, type_, _: type_ != "schema" or name == SCHEMA,
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_several_processes_prepare_at_once_and_one_does_it(database_url: str) -> None:
    assert sorted(await asyncio.gather(*(prepare(database_url) for _ in range(4)))) == [False, False, False, True]


def test_the_head_that_the_code_names_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(schemas.config("accounts")).get_heads() == [HEAD]


@pytest.mark.parametrize(("stored", "refused"), [("9999_pre", False), ("9999_post", True)])
async def test_a_newer_schema_is_used_while_it_still_carries_this_release(
    engine: AsyncEngine, database_url: str, stored: str, refused: bool
) -> None:
    async with engine.begin() as connection:
        await connection.execute(sa.text(f"UPDATE accounts.alembic_version SET version_num = '{stored}'"))
    if refused:
        with pytest.raises(SchemaTooNew, match="9999_post") as raised:
            await prepare(database_url)
        assert f"knows {HEAD}" in str(raised.value)
    else:
        assert await prepare(database_url) is False


async def test_months_are_made_once_and_the_old_ones_of_one_table_go(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        for month in (date(2026, 11, 1), date(2026, 12, 24), date(2027, 1, 1), date(2026, 12, 1)):
            await partitions.ensure(connection, month)
        assert len(await partitions.existing(connection)) == 3 * len(partitions.TABLES)
        row = {"job": "4b7c2f6e-0000-4000-8000-000000000001", "reason": "NoQueue", "namespace": "a", "seconds": 1.5}
        for submitted in (datetime(2026, 11, 30, 23, 59, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, tzinfo=UTC)):
            await connection.execute(sa.insert(WaitRecord), {**row, "submitted": submitted})
        dropped = await partitions.drop_before(connection, "waits", date(2026, 12, 15))
        assert dropped == ["waits_2026_11"]
        assert (await connection.scalars(sa.select(WaitRecord.submitted))).all() == [
            datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
        ]


async def test_a_month_is_made_while_others_read_and_write(engine: AsyncEngine) -> None:
    """A report reads several tables in one transaction, and the recorder writes to them."""
    wait = {
        "job": "00000000-0000-4000-8000-000000000001",
        "submitted": datetime(2026, 11, 2, tzinfo=UTC),
        "reason": "Held",
        "namespace": "a",
        "seconds": 1.0,
    }
    async with engine.begin() as connection:
        await partitions.ensure(connection, date(2026, 11, 1))
    async with engine.begin() as other:
        await other.execute(sa.insert(WaitRecord).values(wait))
        await other.execute(sa.text("SELECT count(*) FROM accounts.usage"))
        async with engine.begin() as connection:
            await connection.execute(sa.text("SET LOCAL lock_timeout = '10s'"))
            await partitions.ensure(connection, date(2026, 12, 1))
        await other.execute(sa.text("SELECT count(*) FROM accounts.jobs"))
    async with engine.connect() as connection:
        assert {"waits_2026_12", "usage_2026_12"} <= await partitions.existing(connection)


async def test_an_upgrade_tells_of_old_jobs_where_they_first_ran(database_url: str) -> None:
    """Two months of jobs that the release before 0003 has recorded."""
    await upgrade(database_url, "0002_pre")
    engine = engine_of(database_url)
    long_ago, later = datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 11, 1, 1, tzinfo=UTC)
    attempts = [  # job, number, model, member, started
        (1, 1, "H100", "west", None),
        (1, 2, "H100", "east", later),
        (1, 2, "A100", "east", later),
        (1, 3, "T4", "south", later + timedelta(hours=1)),
        (2, 1, "H100", "north", later),
        (3, 1, "H100", "north", None),
    ]
    async with engine.begin() as connection:
        for month in (long_ago, later):
            await partitions.ensure(connection, month.date())
        for number, submitted, started in ((1, long_ago, later), (2, later, later), (3, later, None)):
            row = {"uid": uid_of(number), "submitted": submitted, "started": started}
            await connection.execute(sa.text(OLD_JOB), row)
        for job, number, model, member, started in attempts:
            told = {"number": number, "model": model, "member": member, "started": started, "placed": later}
            await connection.execute(sa.text(OLD_ATTEMPT), {"job": uid_of(job), **told})
    assert await prepare(database_url)
    async with engine.connect() as connection:
        found = await connection.execute(
            sa.select(JobRecord.first_member, JobRecord.first_models).order_by(JobRecord.uid)
        )
        assert found.all() == [("east", ["A100", "H100"]), ("north", ["H100"]), (None, None)]
    await engine.dispose()


OLD_JOB = """
INSERT INTO accounts.jobs (uid, submitted, namespace, name, kind, priority, gpus, pods, state, started, attempts,
  evictions, lost_gpu_s) VALUES (:uid, :submitted, 'a', 'job', 'Job', 0, 8, 1, 'Running', :started, 1, 0, 0)
"""
OLD_ATTEMPT = """
INSERT INTO accounts.attempts (job, number, model, placed, namespace, kind, member, gpus, started, gpu_s)
  VALUES (:job, :number, :model, :placed, 'a', 'Job', :member, 8, :started, 0)
"""


def uid_of(number: int) -> str:
    return str(UUID(int=number))


async def upgrade(dsn: str, revision: str) -> None:
    """An empty database as an older release has made it."""
    engine = engine_of(dsn)
    async with engine.begin() as connection:
        await connection.execute(sa.text(f"CREATE SCHEMA {SCHEMA}"))
    await schemas.upgrade("accounts", engine, revision)
    await engine.dispose()
