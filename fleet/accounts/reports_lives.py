"""Lists the jobs of the history, and tells the whole life of one: its waits, its attempts, how each ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from fleet.accounts.models import AttemptRecord, JobRecord, WaitRecord
from fleet.accounts.reports import HOUR_S, UNKNOWN, Row
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import Condition, JobSelection, of_attempt, of_job
from fleet.values.times import rfc3339

EARLIER_MOST = 20  # jobs of the same name that are named
NAMES_MOST = 2000  # that a name is compared with
Mark = tuple[datetime, str]  # submission and uid of the last job of a page


async def jobs(
    reader: HistoryReader,
    chosen: JobSelection,
    *,
    states: Sequence[str] = (),
    name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int,
    after: Mark | None = None,
    now: datetime,
) -> tuple[list[Row], Mark | None]:
    """Jobs, the newest submission first, and where the next page begins. `since`, `until`: those that were there at
    some time from `since` on and before `until`."""
    statement = sa.select(JobRecord).where(*of_job(JobRecord, chosen))
    if chosen.member is not None or chosen.model is not None:
        there = of_attempt(JobSelection(member=chosen.member, model=chosen.model))
        statement = statement.where(sa.exists().where(AttemptRecord.job == JobRecord.uid, *there))
    if states:
        statement = statement.where(JobRecord.state.in_(states))
    if name is not None:
        statement = statement.where(JobRecord.name == name)
    if since is not None:
        statement = statement.where(sa.or_(JobRecord.ended.is_(None), JobRecord.ended >= since))
    if until is not None:
        statement = statement.where(JobRecord.submitted < until)
    if after is not None:
        at, uid = after
        statement = statement.where(
            JobRecord.submitted <= at,
            sa.or_(JobRecord.submitted < at, JobRecord.uid < sa.cast(uid, JobRecord.uid.type)),
        )
    found = await _found(reader, statement.limit(limit + 1))
    shown = found[:limit]
    mark = (shown[-1].submitted, shown[-1].uid) if len(found) > limit else None
    attempts = await _attempts(reader, [job.uid for job in shown])
    return [_job(job, attempts.get(job.uid, []), now) for job in shown], mark


async def life(reader: HistoryReader, now: datetime, *which: Condition) -> Row | None:
    """The newest job of which this holds, with everything that is recorded of it; None: there is none."""
    job_rows = await _found(reader, sa.select(JobRecord).where(*which).limit(EARLIER_MOST + 1))
    if not job_rows:
        return None
    job = job_rows[0]
    waited = sa.select(WaitRecord.reason, WaitRecord.seconds, WaitRecord.since).where(
        WaitRecord.job == job.uid, WaitRecord.submitted == job.submitted
    )
    attempts, waits = await _attempts(reader, [job.uid]), await reader.rows(waited)
    job_attempts = attempts.get(job.uid, [])
    numbers = sorted({attempt.number for attempt in job_attempts})
    spells = [
        {
            "reason": reason,
            "goesOn": since is not None,
            "seconds": round(seconds + (max(0.0, (now - since).total_seconds()) if since is not None else 0.0), 3),
        }
        for reason, seconds, since in waits
    ]
    return _job(job, job_attempts, now) | {
        "waits": sorted(spells, key=lambda spell: -spell["seconds"]),
        "placements": [_placement([a for a in job_attempts if a.number == number], now) for number in numbers],
        "earlier": [
            {"uid": other.uid, "kind": other.kind, "state": other.state, "submitted": _time(other.submitted)}
            for other in job_rows[1:]
        ],
    }


async def names(reader: HistoryReader, chosen: JobSelection) -> list[str]:
    """The names of these jobs."""
    found = await reader.rows(sa.select(JobRecord.name).where(*of_job(JobRecord, chosen)).distinct().limit(NAMES_MOST))
    return [name for (name,) in found]


def of_name(namespace: str, kind: str, name: str) -> tuple[Condition, ...]:
    return JobRecord.namespace == namespace, JobRecord.kind == kind, JobRecord.name == name


def of_uid(uid: str, chosen: JobSelection) -> tuple[Condition, ...]:
    return JobRecord.uid == uid, *of_job(JobRecord, chosen)


async def _found(reader: HistoryReader, statement: sa.Select[Any]) -> Sequence[Any]:
    """Rows whose columns have the names of the table's."""
    columns = (column.label(column.key) for column in JobRecord.__table__.columns)
    return await reader.rows(
        statement.with_only_columns(*columns).order_by(JobRecord.submitted.desc(), JobRecord.uid.desc())
    )


async def _attempts(reader: HistoryReader, uids: Sequence[str]) -> dict[str, list[Any]]:
    """The rows of attempts by job, in their order."""
    if not uids:
        return {}
    columns = (column.label(column.key) for column in AttemptRecord.__table__.columns)
    asked = sa.select(*columns).where(AttemptRecord.job.in_(uids))
    found: dict[str, list[Any]] = {}
    for row in await reader.rows(asked.order_by(AttemptRecord.number, AttemptRecord.model)):
        found.setdefault(row.job, []).append(row)
    return found


def _job(job: Any, attempts: Sequence[Any], now: datetime) -> Row:
    last = [attempt for attempt in attempts if attempt.number == attempts[-1].number]
    until = job.started or job.ended or now
    return {
        "uid": job.uid,
        "namespace": job.namespace,
        "kind": job.kind,
        "name": job.name,
        "user": job.user,
        "queue": job.queue,
        "priority": job.priority,
        "gpus": job.gpus,
        "pods": job.pods,
        "state": job.state,
        "why": job.why,
        "message": job.message,
        "submitted": _time(job.submitted),
        "started": _time(job.started),
        "ended": _time(job.ended),
        "waitedS": round(max(0.0, (until - job.submitted).total_seconds()), 3),
        "ranS": _ran(attempts, now),
        "attempts": job.attempts,
        "evictions": job.evictions,
        "members": list(dict.fromkeys(attempt.member for attempt in attempts)),
        "models": _models(last),
        "gpuHours": _hours(attempts, now),
        "lostGpuHours": job.lost_gpu_s / HOUR_S,
    }


def _placement(rows: Sequence[Any], now: datetime) -> Row:
    """One attempt; it has a row for each GPU model."""
    first = rows[0]
    return {
        "number": first.number,
        "member": first.member,
        "models": _models(rows),
        "placed": _time(first.placed),
        "started": _time(first.started),
        "ended": _time(first.ended),
        "gpuHours": _hours(rows, now),
        "outcome": first.outcome,
        "why": first.why,
    }


def _models(rows: Iterable[Any]) -> dict[str, int]:
    return {row.model or UNKNOWN: row.gpus for row in rows if row.gpus}


def _ran(rows: Iterable[Any], now: datetime) -> float:
    """Seconds in which attempts ran, those that go on up to now."""
    ran: dict[int, timedelta] = {
        row.number: (row.ended or now) - row.started for row in rows if row.started is not None
    }
    return round(sum(max(0.0, span.total_seconds()) for span in ran.values()), 3)


def _hours(rows: Iterable[Any], now: datetime) -> float:
    """GPU-hours, of attempts that go on up to now."""
    total = 0.0
    for row in rows:
        total += row.gpu_s
        if row.started is not None and row.ended is None:
            total += row.gpus * max(0.0, (now - (row.counted or row.started)).total_seconds())
    return total / HOUR_S


def _time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at.timestamp())
