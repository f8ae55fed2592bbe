"""Usage by the minute: of members what runs there beside what they have, of queues what they hold and let wait.

A sample is taken from the attempts and jobs that go on in the history itself. A minute without a leader has no sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleet.accounts import partitions
from fleet.accounts.models import AttemptRecord, JobRecord, UsageRecord
from fleet.accounts.rows import instant

MINUTE_S = 60.0
MEMBER, QUEUE = "member", "queue"
WAITING = ("Queued", "Evicting")


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """GPUs that a queue is guaranteed, and that it may have at most; None: no limit."""

    guaranteed: float = 0.0
    most: float | None = None


async def sample(
    connection: AsyncConnection,
    now: float,
    members: Mapping[tuple[str, str], float],
    queues: Mapping[str, QueueLimits],
) -> int:
    """Write the minute of `now`; returns the number of rows. `members`: GPUs by member and model; `queues`: by path."""
    at = instant(now - now % MINUTE_S)
    there = sa.select(AttemptRecord.member, AttemptRecord.model, sa.func.sum(AttemptRecord.gpus)).where(
        AttemptRecord.ended.is_(None)
    )
    used = {(name, model): gpus for name, model, gpus in await connection.execute(there.group_by("member", "model"))}
    holds = (
        sa.select(AttemptRecord.queue, sa.func.sum(AttemptRecord.gpus))
        .where(AttemptRecord.ended.is_(None))
        .group_by("queue")
    )
    asks = sa.select(JobRecord.queue, sa.func.sum(JobRecord.gpus)).where(
        JobRecord.ended.is_(None), JobRecord.state.in_(WAITING)
    )
    use = {path: gpus for path, gpus in await connection.execute(holds) if path is not None}
    waiting = {path: gpus for path, gpus in await connection.execute(asks.group_by("queue")) if path is not None}
    rows = [
        {
            "at": at,
            "scope": MEMBER,
            "name": name,
            "model": model,
            "used": float(used.get((name, model), 0)),
            "waiting": 0.0,
            "capacity": members.get((name, model)),
            "guaranteed": None,
        }
        for name, model in sorted({*members, *(key for key, gpus in used.items() if gpus)})
    ]
    for path in sorted({*queues, *use, *waiting}):
        limits = queues.get(path, QueueLimits())
        rows.append(
            {
                "at": at,
                "scope": QUEUE,
                "name": path,
                "model": "",
                "used": float(use.get(path, 0)),
                "waiting": float(waiting.get(path, 0)),
                "capacity": limits.most,
                "guaranteed": limits.guaranteed,
            }
        )
    if rows:
        await partitions.ensure(connection, partitions.month_of(at))
        await connection.execute(insert(UsageRecord).on_conflict_do_nothing(), rows)
    return len(rows)
