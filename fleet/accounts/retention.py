"""The end of history: months that are older than is kept, and the name of a user who is to be forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from fleet.accounts import partitions
from fleet.accounts.models import AttemptRecord, JobRecord, NotificationRecord, UsageRecord, WaitRecord

JOB_TABLES = tuple(model.__tablename__ for model in (JobRecord, AttemptRecord, WaitRecord))


async def retain(connection: AsyncConnection, now: float, *, job_days: int, usage_days: int) -> list[str]:
    """Drop the months of which every day is older than is kept (0 days: for ever); returns their partitions."""
    today, dropped = datetime.fromtimestamp(now, UTC), list[str]()
    for tables, days in ((JOB_TABLES, job_days), ((UsageRecord.__tablename__,), usage_days)):
        for table in tables if days else ():
            oldest = partitions.month_of(today - timedelta(days=days))
            dropped += await partitions.drop_before(connection, table, oldest)
    return dropped


async def erase(connection: AsyncConnection, user: str) -> int:
    """Forget whose jobs these were, in the transaction of `connection`; returns how many rows named the user. Jobs
    first, whose rows a recorder locks: a batch that it writes meanwhile has the name no more, or is found below."""
    count = 0
    for model in (JobRecord, AttemptRecord, WaitRecord):
        done = await connection.execute(sa.update(model).where(model.user == user).values(user=None))
        count += done.rowcount
    told = sa.update(NotificationRecord).where(NotificationRecord.body["user"].astext == user)
    await connection.execute(told.values(body=NotificationRecord.body.op("||")(sa.cast({"user": None}, JSONB))))
    return count
