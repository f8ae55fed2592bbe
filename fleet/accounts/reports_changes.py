"""The changes of a period: attempts that started, and attempts that ended, by their outcome."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from fleet.accounts.models import Attempt, Job
from fleet.accounts.reports_asked import Chosen, Period, of_attempt
from fleet.accounts.reports_reader import Reader

STARTED = "Started"
Row = dict[str, Any]


async def changes(reader: Reader, period: Period, chosen: Chosen, limit: int) -> tuple[list[Row], dict[str, int]]:
    """The newest changes, `limit` of them at most, and the number of all by kind. Of several GPU models an attempt has
    a row each, and counts once. Raises HistoryUnavailable."""
    key = (Attempt.job, Attempt.number)
    conditions = sa.or_(Attempt.ended.is_(None), Attempt.ended >= period.start), *of_attempt(chosen)
    started = (
        sa.select(
            *key,
            sa.func.min(Attempt.started).label("at"),
            sa.literal(STARTED).label("what"),
            sa.func.min(Attempt.member).label("member"),
        )
        .where(Attempt.started >= period.start, Attempt.started < period.end, *conditions)
        .group_by(*key)
    )
    ended = (
        sa.select(
            *key,
            sa.func.max(Attempt.ended).label("at"),
            sa.func.min(Attempt.outcome).label("what"),
            sa.func.min(Attempt.member).label("member"),
        )
        .where(Attempt.ended >= period.start, Attempt.ended < period.end, *conditions)
        .group_by(*key)
    )
    both = sa.union_all(started, ended).subquery()
    newest = (
        sa.select(both.c.at, both.c.what, both.c.member, Job.namespace, Job.kind, Job.name, Job.gpus, Job.queue)
        .join(Job, Job.uid == both.c.job)
        .order_by(both.c.at.desc(), both.c.job, both.c.what)
        .limit(limit)
    )
    rows, sums = await reader.together(newest, sa.select(both.c.what, sa.func.count()).group_by(both.c.what))
    return [row._asdict() for row in rows], {what or "Ended": number for what, number in sums}
