"""How long reports over a long history take: a PostgreSQL of the hub's own kind, with a million past jobs of a year.

    python -m tests.bench.run history

Beside the jobs there are their attempts, their waits by two reasons each, and a year of minutes of four members. The
first look at each report is not counted: it reads the disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from api.store.embedded import EmbeddedPostgres
from fleet.accounts import partitions
from fleet.accounts.reports import REPORTS, ReportGrouping
from fleet.accounts.reports_lives import jobs, life, of_name
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import JobSelection, Period
from fleet.accounts.schema import engine_of, prepare
from tests.bench.report import Figure, Report, say

Ask = Callable[[], Awaitable[Any]]
JOBS = 1_000_000
FILL_S = 900.0
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
YEAR, MONTH = Period(START, END, END), Period(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC), END)
TENANT = JobSelection(sight={"PyTorchJob": frozenset(f"team-{n}" for n in range(6))})
SEED = """
CREATE TEMP TABLE seed AS SELECT gen_random_uuid() uid, n, n % 200 u, n % 40 q, n % 60 ns, n % 10 m, 8 * (1 + n % 4) g,
  timestamptz '2026-01-01' + n * 360.0 / {jobs} * interval '1 day' submitted,
  (random() * 86400)::int w, (random() * 43200)::int d FROM generate_series(1, {jobs}) n;
INSERT INTO accounts.jobs (uid, submitted, namespace, name, kind, "user", queue, priority, gpus, pods, state, started,
  first_member, first_models, ended, attempts, evictions, lost_gpu_s)
  SELECT uid, submitted, 'team-' || ns, 'train-' || n, 'PyTorchJob', 'user-' || u, 'root/leaf-' || q, 0, g, g / 8,
  'Succeeded', submitted + w * interval '1 s', 'member-' || m, array['model-' || m % 3],
  submitted + (w + d) * interval '1 s', 1 + (n % 20 = 0)::int, (n % 20 = 0)::int, 0 FROM seed;
INSERT INTO accounts.attempts (job, number, model, placed, namespace, "user", queue, kind, member, gpus, started, ended,
  counted, gpu_s, outcome)
  SELECT uid, k, 'model-' || m % 3, submitted + (w + (k - 1) * d) * interval '1 s', 'team-' || ns, 'user-' || u,
  'root/leaf-' || q, 'PyTorchJob', 'member-' || m, g, submitted + (w + (k - 1) * d) * interval '1 s',
  submitted + (w + k * d) * interval '1 s', submitted + (w + k * d) * interval '1 s', d * g,
  CASE WHEN n % 20 = 0 AND k = 1 THEN 'Evicted' ELSE 'Succeeded' END
  FROM seed, generate_series(1, 2) k WHERE k <= 1 + (n % 20 = 0)::int;
INSERT INTO accounts.waits (job, submitted, reason, namespace, "user", queue, seconds)
  SELECT uid, submitted, r, 'team-' || ns, 'user-' || u, 'root/leaf-' || q, w / 2.0
  FROM seed, unnest(array['QuotaExhausted', 'NoMemberFits']) r;
INSERT INTO accounts.usage (at, scope, name, model, used, waiting, capacity)
  SELECT at, 'member', 'member-' || m, 'model-' || m % 3, 400, 0, 512
  FROM generate_series(timestamptz '2026-01-01', '2026-12-30 23:59', '1 minute') at, generate_series(0, 3) m;
"""


def measure(report: Report, folder: Path, rounds: int) -> None:
    asyncio.run(_measure(report, folder, rounds))


async def _measure(report: Report, folder: Path, rounds: int) -> None:
    postgres = EmbeddedPostgres(folder / "postgres")
    dsn = await postgres.start()
    reader = HistoryReader(dsn)
    try:
        say(f"history: {JOBS:,} jobs are written")
        await _fill(dsn)
        for name, ask, goal in _questions(reader):
            await _time(report, rounds, name, goal, ask)
    finally:
        await reader.close()
        await postgres.stop()


def _questions(reader: HistoryReader) -> Iterator[tuple[str, Ask, str]]:
    """Name, question and goal."""
    for name, make in REPORTS.items():
        for by in ReportGrouping:
            yield f"{name} by {by}, a year", partial(make, reader, by, YEAR, JobSelection()), "≤ 2"
        yield f"{name} by user, a month", partial(make, reader, ReportGrouping.USER, MONTH, JobSelection()), ""
        yield f"{name} by user, a tenant", partial(make, reader, ReportGrouping.USER, YEAR, TENANT), "≤ 2"
    yield "list: newest 500", partial(jobs, reader, JobSelection(), limit=500, now=END), ""
    yield "list: of a user", partial(jobs, reader, JobSelection(user="user-7"), limit=500, now=END), ""
    yield "life of a job", partial(life, reader, END, *of_name("team-7", "PyTorchJob", "train-7")), ""


async def _time(report: Report, rounds: int, name: str, goal: str, ask: Ask) -> None:
    await ask()
    values = []
    for _ in range(rounds):
        began = time.perf_counter()
        await ask()
        values.append(time.perf_counter() - began)
    report.add(Figure(name, "s", tuple(values), goal))
    say(f"history: {name}: {min(values):.2f} s")


async def _fill(dsn: str) -> None:
    """A year of jobs, and what PostgreSQL's own upkeep would have done by then."""
    await prepare(dsn)
    engine = engine_of(dsn)
    async with engine.begin() as connection:
        for month in range(1, 13):
            await partitions.ensure(connection, date(2026, month, 1))
        await partitions.ensure(connection, date(2027, 1, 1))
    await engine.dispose()
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(SEED.format(jobs=JOBS), timeout=FILL_S)
        await connection.execute("VACUUM ANALYZE", timeout=FILL_S)
    finally:
        await connection.close()
