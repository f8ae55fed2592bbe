"""Lives of jobs from the tables, and back into them, in the transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleet.accounts import partitions
from fleet.accounts.fold import JobLife
from fleet.accounts.models import SCHEMA, Base
from fleet.accounts.run import AttemptRun, ModelGpus

_JOBS, _ATTEMPTS, _WAITS = (Base.metadata.tables[f"{SCHEMA}.{name}"] for name in ("jobs", "attempts", "waits"))
_COLUMNS = tuple(column.name for column in _JOBS.c)
_KEPT = ("uid", "submitted", "user")  # of a job that is written again: an erased name does not come back


def instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _or_none(at: float | None) -> datetime | None:
    return None if at is None else instant(at)


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


async def load(connection: AsyncConnection, uids: Collection[str]) -> dict[str, JobLife]:
    """The lives of these jobs, as far as they are recorded, each with its latest attempt. Locks their rows."""
    lives: dict[str, JobLife] = {}
    if not uids:
        return lives
    for row in await connection.execute(sa.select(_JOBS).where(_JOBS.c.uid.in_(uids)).with_for_update()):
        times = {"submitted": row.submitted.timestamp(), "started": _seconds(row.started), "ended": _seconds(row.ended)}
        lives[row.uid] = JobLife(**{**row._mapping, **times})
    for row in await connection.execute(sa.select(_WAITS).where(_WAITS.c.job.in_(lives))):
        life = lives[row.job]
        spell = (row.reason, row.since.timestamp()) if row.since is not None else life.spell
        waits = {**life.waits, **({row.reason: row.seconds} if row.seconds else {})}
        lives[row.job] = replace(life, waits=waits, spell=spell)
    attempts = sa.select(_ATTEMPTS).where(_ATTEMPTS.c.job.in_(lives)).order_by(_ATTEMPTS.c.number)
    for row in await connection.execute(attempts):
        life, part = lives[row.job], ModelGpus(row.model, row.gpus, row.gpu_s)
        if life.run is not None and life.run.number == row.number:
            lives[row.job] = replace(life, run=replace(life.run, parts=(*life.run.parts, part)))
        else:
            lives[row.job] = replace(life, run=_run_of(row, part))
    return lives


def _run_of(row: Any, part: ModelGpus) -> AttemptRun:
    return AttemptRun(
        row.number,
        row.placed.timestamp(),
        row.member,
        (part,),
        _seconds(row.started),
        _seconds(row.ended),
        _seconds(row.counted),
        row.outcome,
        row.why,
    )


async def write(connection: AsyncConnection, lives: Iterable[JobLife]) -> None:
    """Put the lives into the tables, with their latest attempts and those before them that have changed."""
    lives = list(lives)
    if not lives:
        return
    runs = [(life, run) for life in lives for run in (*life.earlier, life.run) if run is not None]
    starts = [*(life.submitted for life in lives), *(run.placed for _, run in runs)]
    for month in sorted({partitions.month_of(instant(at)) for at in starts}):
        await partitions.ensure(connection, month)
    statement = insert(_JOBS)
    changed = {name: statement.excluded[name] for name in _COLUMNS if name not in _KEPT}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["uid", "submitted"], set_=changed),
        [_job(life) for life in lives],
    )
    written = sa.tuple_(_ATTEMPTS.c.job, _ATTEMPTS.c.number)
    keys = [(life.uid, run.number) for life, run in runs]
    if keys:
        await connection.execute(sa.delete(_ATTEMPTS).where(written.in_(keys)))
        await connection.execute(sa.insert(_ATTEMPTS), [row for life, run in runs for row in _attempts(life, run)])
    await connection.execute(sa.delete(_WAITS).where(_WAITS.c.job.in_([life.uid for life in lives])))
    if waits := [row for life in lives for row in _waits(life)]:
        await connection.execute(sa.insert(_WAITS), waits)


def _job(life: JobLife) -> Mapping[str, Any]:
    member, models = life.first_start
    return {
        **{name: getattr(life, name) for name in _COLUMNS},
        "first_member": member,
        "first_models": models,
        "submitted": instant(life.submitted),
        "started": _or_none(life.started),
        "ended": _or_none(life.ended),
    }


def _attempts(life: JobLife, run: AttemptRun) -> Iterable[Mapping[str, Any]]:
    for part in run.parts:
        yield {
            **_whose(life),
            "kind": life.kind,
            "number": run.number,
            "model": part.model,
            "placed": instant(run.placed),
            "member": run.member,
            "gpus": part.gpus,
            "gpu_s": part.gpu_s,
            "started": _or_none(run.started),
            "ended": _or_none(run.ended),
            "counted": _or_none(run.counted),
            "outcome": run.outcome,
            "why": run.why,
        }


def _waits(life: JobLife) -> Iterable[Mapping[str, Any]]:
    reason, since = life.spell or ("", None)
    for name in sorted({*(name for name, seconds in life.waits.items() if seconds), *([reason] if reason else [])}):
        yield {
            **_whose(life),
            "submitted": instant(life.submitted),
            "reason": name,
            "seconds": life.waits.get(name, 0.0),
            "since": _or_none(since) if name == reason else None,
        }


def _whose(life: JobLife) -> Mapping[str, Any]:
    return {"job": life.uid, "namespace": life.namespace, "user": life.user, "queue": life.queue}
