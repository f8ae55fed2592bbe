"""The months of the tables that grow: each is a partition, made before its first row and dropped whole when it is old.

A month begins and ends at midnight UTC. The name of a partition is the table's with year and month: `jobs_2026_11`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleet.accounts.models import SCHEMA, AttemptRecord, JobRecord, UsageRecord, WaitRecord

TABLES = tuple(model.__tablename__ for model in (JobRecord, AttemptRecord, WaitRecord, UsageRecord))
PARTITION_LOCK = 0x666C6565_0005  # two that make the same month at once would refuse each other


def month_of(at: datetime) -> date:
    """The first day of its month, in UTC."""
    return at.astimezone(UTC).date().replace(day=1)


def following(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


async def ensure(connection: AsyncConnection, month: date) -> None:
    """Make the partitions of the month that are not there, in the transaction of `connection`. Others read and write
    the whole while a table is attached to it. They could not while one is created as a partition, and a report that
    reads several tables would then wait for this, and this for the report."""
    first = month.replace(day=1)
    named = {table: f"{table}_{first:%Y_%m}" for table in TABLES}
    if set(named.values()) <= await existing(connection):
        return
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(PARTITION_LOCK)))
    there = await existing(connection)
    for table, name in named.items():
        if name in there:
            continue
        whole, part = f"{SCHEMA}.{table}", f"{SCHEMA}.{name}"
        bounds = f"FROM ('{first} 00:00+00') TO ('{following(first)} 00:00+00')"
        await connection.execute(sa.text(f"CREATE TABLE {part} (LIKE {whole} INCLUDING ALL)"))
        await connection.execute(sa.text(f"ALTER TABLE {whole} ATTACH PARTITION {part} FOR VALUES {bounds}"))


async def existing(connection: AsyncConnection) -> set[str]:
    """The names of the partitions that are there."""
    result = await connection.execute(
        sa.text(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace"
            " WHERE n.nspname = :schema AND p.relkind = 'p' AND c.relkind = 'r'"
        ),
        {"schema": SCHEMA},
    )
    return set(result.scalars())


async def drop_before(connection: AsyncConnection, table: str, oldest: date) -> list[str]:
    """Drop the partitions of the table whose month lies before that of `oldest`; returns their names."""
    month = f"_{oldest:%Y_%m}"
    old = sorted(n for n in await existing(connection) if n[: -len(month)] == table and n < table + month)
    for name in old:
        await connection.execute(sa.text(f"DROP TABLE {SCHEMA}.{name}"))
    return old
