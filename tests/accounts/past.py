"""A past that tests write by hand: rows of the history, in hours after a moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts import partitions
from fleet.accounts.models import AttemptRecord, JobRecord, UsageRecord, WaitRecord
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import Period
from fleet.accounts.schema import engine_of, prepare

START = datetime(2026, 11, 2, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def period(start: float, end: float, now: float = 1000) -> Period:
    return Period(at(start), at(end), at(now))


@dataclass
class Past:
    """Writes rows; each job gets the next number as its uid."""

    engine: AsyncEngine
    reader: HistoryReader
    count: int = 0

    async def job(
        self,
        name: str,
        submitted: float = 0,
        attempts: Sequence[Mapping[str, Any]] = (),
        waits: Mapping[str, float] | None = None,
        **more: Any,
    ) -> str:
        """One job with its attempts, whose times are in hours; `waits`: hours by reason."""
        self.count += 1
        uid = str(UUID(int=self.count))
        whose = {"namespace": "team", "user": "alice", "queue": "root/vision"}
        whose |= {key: more.pop(key) for key in list(more) if key in whose}
        kind = more.pop("kind", "PyTorchJob")
        starts = [attempt["started"] for attempt in attempts if attempt.get("started") is not None]
        first = [attempt for attempt in attempts if attempt.get("started") == min(starts, default=None)]
        row: dict[str, Any] = {
            "uid": uid,
            "name": name,
            "kind": kind,
            "submitted": at(submitted),
            "priority": 0,
            "gpus": 8,
            "pods": 2,
            "state": "Succeeded",
            "started": at(min(starts)) if starts else None,
            "attempts": len(attempts),
            "evictions": 0,
            "lost_gpu_s": 0.0,
            **whose,
            **more,
            "first_member": first[0].get("member", "east") if starts else None,
            "first_models": sorted({one.get("model", "H100") for one in first}) if starts else None,
        }
        tried = []
        for number, attempt in enumerate(attempts, 1):
            one = {
                "job": uid,
                "number": number,
                "model": "H100",
                "member": "east",
                "gpus": 8,
                "outcome": "Succeeded",
                "why": None,
                "kind": kind,
                **whose,
                **attempt,
            }
            begun, ended, counted = one.get("started"), one.get("ended"), one.pop("counted", one.get("ended"))
            one["gpu_s"] = 3600.0 * one["gpus"] * ((counted or begun) - begun) if begun is not None else 0.0
            one["placed"] = at(one.pop("placed", begun if begun is not None else submitted))
            times = {"started": begun, "ended": ended, "counted": counted}
            tried.append(one | {key: None if hour is None else at(hour) for key, hour in times.items()})
        waited = [
            {"job": uid, "submitted": at(submitted), "reason": reason, "seconds": 3600.0 * hours, **whose}
            for reason, hours in (waits or {}).items()
        ]
        await self.put((JobRecord, [row]), (AttemptRecord, tried), (WaitRecord, waited))
        return uid

    async def minutes(self, member: str, capacity: float, start: float, end: float, model: str = "H100") -> None:
        """The capacity of a member in every minute of some hours."""
        rows = [
            {
                "at": at(start) + timedelta(minutes=n),
                "scope": "member",
                "name": member,
                "model": model,
                "used": 0.0,
                "waiting": 0.0,
                "capacity": capacity,
            }
            for n in range(round((end - start) * 60))
        ]
        await self.put((UsageRecord, rows))

    async def put(self, *tables: tuple[Any, Sequence[Mapping[str, Any]]]) -> None:
        async with self.engine.begin() as connection:
            for table, rows in tables:
                for row in rows[:1]:
                    when = row.get("submitted") or row.get("placed") or row["at"]
                    await partitions.ensure(connection, when.date())
                if rows:
                    await connection.execute(sa.insert(table), list(rows))


@asynccontextmanager
async def past_in(database_url: str) -> AsyncIterator[Past]:
    """An empty past in this database."""
    await prepare(database_url)
    engine, reader = engine_of(database_url), HistoryReader(database_url)
    try:
        yield Past(engine, reader)
    finally:
        await reader.close()
        await engine.dispose()
