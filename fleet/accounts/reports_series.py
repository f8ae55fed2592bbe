"""Use over time: GPUs that queues or members used and let wait, as means over steps of a period.

The source is the usage by the minute. Of a long period only SAMPLES minutes are read, which lie evenly, and all of
its last hour: a hub that is new has no others. A step without
a recorded minute has no value. The names with the most use have a series each, and all others share one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

import sqlalchemy as sa

from fleet.accounts.models import UsageRecord
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import Period
from fleet.accounts.usage import MEMBER, MINUTE_S

SAMPLES = 1000  # minutes that are read
LAST = 60  # minutes at the end that are all read
SERIES_MOST = 8

Values = list[float | None]  # of each step; None: nothing was recorded


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """`name`: None for all others together."""

    name: str | None
    used: Values
    waiting: Values


@dataclass(frozen=True, slots=True)
class OverTime:
    """`steps`: the beginnings of the steps; `capacity`: of all members together."""

    step_s: int
    steps: Sequence[datetime]
    series: Sequence[UsageSeries]
    capacity: Values


async def over_time(reader: HistoryReader, scope: str, period: Period, points: int) -> OverTime:
    """`scope`: of the names, `queue` or `member`; `points`: steps at most. Raises HistoryUnavailable."""
    minutes = max(1, ceil((period.end - period.start).total_seconds() / MINUTE_S))
    step = ceil(minutes / points)
    begin = datetime.fromtimestamp(period.start.timestamp() // MINUTE_S * MINUTE_S, UTC)
    every = max(1, ceil(minutes / SAMPLES))
    numbers = {*range(0, minutes, every), *range(max(0, minutes - LAST), minutes)}
    read = [begin + timedelta(minutes=number) for number in sorted(numbers)]
    usage, capacity = await reader.together(
        sa.select(UsageRecord.at, UsageRecord.name, sa.func.sum(UsageRecord.used), sa.func.sum(UsageRecord.waiting))
        .where(UsageRecord.at.in_(read), UsageRecord.scope == scope)
        .group_by(UsageRecord.at, UsageRecord.name),
        sa.select(UsageRecord.at, sa.func.sum(UsageRecord.capacity))
        .where(UsageRecord.at.in_(read), UsageRecord.scope == MEMBER)
        .group_by(UsageRecord.at),
    )
    count = ceil(minutes / step)

    def place(at: datetime) -> int:
        return int((at - begin).total_seconds() // MINUTE_S) // step

    recorded = Counter(place(at) for at in {row[0] for row in (*usage, *capacity)})
    totals: Counter[str] = Counter()
    for _, name, used, _ in usage:
        totals[name] += used
    largest = [name for name, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:SERIES_MOST]]
    used_of: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    waiting_of: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    for at, name, used, waiting in usage:
        key = (name if name in largest else None, place(at))
        used_of[key] += used
        waiting_of[key] += waiting
    room: dict[int, float] = dict.fromkeys(range(count), 0.0)
    for at, gpus in capacity:
        room[place(at)] += gpus or 0.0

    def means(values: Mapping[tuple[str | None, int], float], name: str | None) -> Values:
        return [
            values.get((name, number), 0.0) / recorded[number] if recorded[number] else None for number in range(count)
        ]

    names: list[str | None] = [*largest, *([None] if len(totals) > len(largest) else [])]
    return OverTime(
        int(step * MINUTE_S),
        [begin + timedelta(minutes=number * step) for number in range(count)],
        [UsageSeries(name, means(used_of, name), means(waiting_of, name)) for name in names],
        [room[number] / recorded[number] if recorded[number] else None for number in range(count)],
    )
