"""The changes of a period: attempts that started, and attempts that ended, by their outcome."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from fleet.accounts.models import AttemptRecord, JobRecord
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import JobSelection, Period, of_attempt

STARTED = "Started"
Row = dict[str, Any]


async def changes(
    reader: HistoryReader, period: Period, chosen: JobSelection, limit: int
) -> tuple[list[Row], dict[str, int]]:
    """The newest changes, `limit` of them at most, and the number of all by kind. Of several GPU models an attempt has
    a row each, and counts once. Raises HistoryUnavailable."""
    key = (AttemptRecord.job, AttemptRecord.number)
    conditions = sa.or_(AttemptRecord.ended.is_(None), AttemptRecord.ended >= period.start), *of_attempt(chosen)
    started = (
        sa.select(
            *key,
            sa.func.min(AttemptRecord.started).label("at"),
            sa.literal(STARTED).label("what"),
            sa.func.min(AttemptRecord.member).label("member"),
        )
        .where(AttemptRecord.started >= period.start, AttemptRecord.started < period.end, *conditions)
        .group_by(*key)
    )
    ended = (
        sa.select(
            *key,
            sa.func.max(AttemptRecord.ended).label("at"),
            sa.func.min(AttemptRecord.outcome).label("what"),
            sa.func.min(AttemptRecord.member).label("member"),
        )
        .where(AttemptRecord.ended >= period.start, AttemptRecord.ended < period.end, *conditions)
        .group_by(*key)
    )
    both = sa.union_all(started, ended).subquery()
    newest = (
        sa.select(
            both.c.at,
            both.c.what,
            both.c.member,
            JobRecord.namespace,
            JobRecord.kind,
            JobRecord.name,
            JobRecord.gpus,
            JobRecord.queue,
        )
        .join(JobRecord, JobRecord.uid == both.c.job)
        .order_by(both.c.at.desc(), both.c.job, both.c.what)
        .limit(limit)
    )
    rows, sums = await reader.together(newest, sa.select(both.c.what, sa.func.count()).group_by(both.c.what))
    return [row._asdict() for row in rows], {what or "Ended": number for what, number in sums}
