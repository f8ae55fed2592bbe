"""The three reports of the history, and what each of their numbers means.

**Usage**: GPU-hours of attempts, from the start of their pods to the end, as far as they lie in the period. An attempt
that lies in it in part counts in proportion. By GPU model, and as a share of the capacity where that is known.

**Waits**: of the jobs that were submitted in the period, the time from submission to the first start of their pods:
number, mean and percentiles over the jobs that have started. A percentile is the wait of one of the jobs, not a value
between two. Beside them the hours by reason, of jobs that still wait too.

**Efficiency**: GPU-hours of work that counted ÷ GPU-hours used. Lost are those of attempts that were evicted or failed.

**Capacity**: GPU-hours of the ready nodes of the members in the recorded part of the period: from its first recorded
minute to its last. The mean is taken over SAMPLES minutes at most. Minutes between that nobody recorded take the mean
of the others. **Share**: GPU-hours used in that part ÷ capacity. Jobs may be older than the first minute of their hub.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from fleet.accounts.models import AttemptRecord, JobRecord, UsageRecord, WaitRecord
from fleet.accounts.reports_reader import HistoryReader
from fleet.accounts.reports_selection import Condition, JobSelection, Period, of_attempt, of_job, of_wait

SAMPLES = 1000
PERCENTILES = (0.5, 0.9, 0.99)
LOST = ("Evicted", "Failed")  # outcomes of attempts whose work did not count
UNKNOWN = "unknown"  # the model of GPUs whose nodes name none
HOUR_S = 3600.0
MINUTE = timedelta(minutes=1)
Row = dict[str, Any]


class ReportGrouping(StrEnum):
    """What the rows of a report stand for."""

    USER = "user"
    QUEUE = "queue"
    NAMESPACE = "namespace"
    MEMBER = "member"
    MODEL = "model"


PLACES = (ReportGrouping.MEMBER, ReportGrouping.MODEL)  # what a job has only once it is placed


async def usage(
    reader: HistoryReader, by: ReportGrouping, period: Period, chosen: JobSelection
) -> tuple[list[Row], Row]:
    """A row for each value of `by`, the largest first, and the sum of all."""
    key, recorded = _key(AttemptRecord, by), await _recorded(reader, period, chosen)
    statement = (
        sa.select(key, AttemptRecord.model.label("of"), sa.func.sum(_used(period)).label("used"), _within(recorded))
        .where(*_in_period(period), *of_attempt(chosen))
        .group_by(key, AttemptRecord.model)
    )
    found = await reader.rows(statement)
    models: dict[str | None, dict[str, float]] = {}
    within: dict[str | None, float] = {}
    for name, model, used, there in found:
        within[name or None] = within.get(name or None, 0.0) + there / HOUR_S
        if used or model:
            models.setdefault(name or None, {})[model or UNKNOWN] = used / HOUR_S
        else:
            models.setdefault(name or None, {})
    rows = [{"key": name, "gpuHours": sum(hours.values()), "models": hours} for name, hours in models.items()]
    total: dict[str, float] = {}
    for hours in models.values():
        for model, value in hours.items():
            total[model] = total.get(model, 0.0) + value
    whole = {"key": None, "gpuHours": sum(total.values()), "models": total}
    await _shares(reader, by, recorded, chosen, within, rows, whole)
    return _largest(rows), whole


async def efficiency(
    reader: HistoryReader, by: ReportGrouping, period: Period, chosen: JobSelection
) -> tuple[list[Row], Row]:
    """A row for each value of `by`, the largest first, and the sum of all."""
    key, recorded = _key(AttemptRecord, by), await _recorded(reader, period, chosen)
    statement = (
        sa.select(key, AttemptRecord.outcome, sa.func.sum(_used(period)).label("used"), _within(recorded))
        .where(*_in_period(period), *of_attempt(chosen))
        .group_by(key, AttemptRecord.outcome)
    )
    hours: dict[str | None, dict[str, float]] = {}
    within: dict[str | None, float] = {}
    for name, outcome, used, there in await reader.rows(statement):
        hours.setdefault(name or None, {})[outcome or ""] = used / HOUR_S
        within[name or None] = within.get(name or None, 0.0) + there / HOUR_S
    rows = [_spent(name, outcomes) for name, outcomes in hours.items()]
    sums: dict[str, float] = {}
    for outcomes in hours.values():
        for outcome, value in outcomes.items():
            sums[outcome] = sums.get(outcome, 0.0) + value
    total = _spent(None, sums)
    await _shares(reader, by, recorded, chosen, within, rows, total)
    return _largest(rows), total


async def waits(
    reader: HistoryReader, by: ReportGrouping, period: Period, chosen: JobSelection
) -> tuple[list[Row], Row]:
    """A row for each value of `by`, the most hours of waiting first, and the figures of all jobs together. A job has
    no member and no model while it waits: by these there are no reasons."""
    placed = chosen.member is not None or chosen.model is not None
    key = _reason_key(by)
    reasons = (
        sa.select(key, WaitRecord.reason, sa.func.sum(_waited(period)).label("waited"))
        .where(WaitRecord.submitted >= period.start, WaitRecord.submitted < period.end, *of_wait(chosen))
        .group_by(*((key,) if by not in PLACES else ()), WaitRecord.reason)
    )
    each, whole, by_reason = await reader.together(
        _waits(by, period, chosen), _waits(None, period, chosen), reasons.where(sa.false()) if placed else reasons
    )
    hours: dict[str | None, dict[str, float]] = {}
    for name, reason, waited in by_reason:
        hours.setdefault(name or None, {})[reason] = waited / HOUR_S
    everything: dict[str, float] = {}
    for reasons_of in hours.values():
        for reason, value in reasons_of.items():
            everything[reason] = everything.get(reason, 0.0) + value
    rows = [_wait_row(row, None if by in PLACES or placed else hours.get(row[0] or None, {})) for row in each]
    rows.sort(key=lambda row: ((row["meanS"] or 0.0) * row["started"], row["waiting"]), reverse=True)
    total = _wait_row(whole[0] if whole else (None, 0, 0, 0, None, None), None if placed else everything)
    return rows, total


REPORTS = {"usage": usage, "waits": waits, "efficiency": efficiency}


def _key(table: type[JobRecord] | type[AttemptRecord], by: ReportGrouping) -> sa.Label[Any]:
    return getattr(table, by.value).label("key")  # type: ignore[no-any-return]


def _reason_key(by: ReportGrouping) -> sa.Label[Any]:
    return sa.null().label("key") if by in PLACES else getattr(WaitRecord, by.value).label("key")


def _seconds(span: Any) -> Any:
    return sa.cast(sa.func.extract("epoch", span), sa.Float)


def _in_period(period: Period) -> Iterable[Condition]:
    """Of attempts whose pods ran in it."""
    yield AttemptRecord.placed < period.end
    yield AttemptRecord.started < period.end
    yield sa.or_(AttemptRecord.ended.is_(None), AttemptRecord.ended > period.start)


def _used(period: Period) -> Any:
    """GPU-seconds of an attempt in the period. Most attempts lie in it whole, so that case comes first and does no
    arithmetic. What goes on is counted up to now."""
    over = sa.func.coalesce(AttemptRecord.ended, sa.literal(period.now, sa.TIMESTAMP(timezone=True)))
    begun = sa.func.coalesce(AttemptRecord.counted, AttemptRecord.started)
    since_counted = sa.case(
        (AttemptRecord.ended.is_(None), AttemptRecord.gpus * sa.func.greatest(_seconds(over - begun), 0.0)), else_=0.0
    )
    inside = _seconds(sa.func.least(over, period.end) - sa.func.greatest(AttemptRecord.started, period.start))
    lasted = sa.func.nullif(_seconds(over - AttemptRecord.started), 0.0)
    part = sa.func.coalesce(sa.func.greatest(inside, 0.0) / lasted, 0.0)
    return sa.case(
        (sa.and_(AttemptRecord.started >= period.start, AttemptRecord.ended <= period.end), AttemptRecord.gpu_s),
        else_=(AttemptRecord.gpu_s + since_counted) * part,
    )


def _waited(period: Period) -> Any:
    """Seconds by one reason; a spell that goes on counts up to now."""
    now = sa.literal(period.now, sa.TIMESTAMP(timezone=True))
    going_on = sa.case((WaitRecord.since.is_(None), 0.0), else_=sa.func.greatest(_seconds(now - WaitRecord.since), 0.0))
    return WaitRecord.seconds + going_on


def _waits(by: ReportGrouping | None, period: Period, chosen: JobSelection) -> sa.Select[Any]:
    """Number, percentiles and mean of the jobs' waits; `by` None: of all of them."""
    inside = (JobRecord.submitted >= period.start, JobRecord.submitted < period.end, *of_job(JobRecord, chosen))
    source = (
        sa.select(_wait_key(by, chosen), JobRecord.submitted, JobRecord.started, JobRecord.ended)
        .where(*inside, *_first_start(by, chosen))
        .subquery()
    )
    wait = source.c.started - source.c.submitted
    ranks = sa.literal(list(PERCENTILES), ARRAY(sa.Float))
    columns = (
        sa.func.count(),
        sa.func.count(source.c.started),
        sa.func.count().filter(source.c.started.is_(None), source.c.ended.is_(None)),
        sa.func.percentile_disc(ranks).within_group(wait),
        sa.func.avg(wait),
    )
    if by is None:
        return sa.select(sa.null().label("key"), *columns)
    # The rows are sorted by group, and a sort by text takes four times as long as one by its hash of 64 bits.
    return sa.select(sa.func.max(source.c.key), *columns).group_by(sa.func.hashtextextended(source.c.key, 0))


def _wait_key(by: ReportGrouping | None, chosen: JobSelection) -> sa.Label[Any]:
    """A job that first ran on GPUs of two models counts for each of them."""
    if by is ReportGrouping.MODEL and chosen.model is None:
        return sa.func.unnest(JobRecord.first_models, type_=sa.String).label("key")
    if by is ReportGrouping.MODEL:
        return sa.literal(chosen.model).label("key")
    if by is ReportGrouping.MEMBER:
        return JobRecord.first_member.label("key")
    return sa.null().label("key") if by is None else _key(JobRecord, by)


def _first_start(by: ReportGrouping | None, chosen: JobSelection) -> Iterable[Condition]:
    """Of jobs that have started, where the place of the first start is asked for."""
    if by in PLACES:
        yield JobRecord.first_member.is_not(None)
    if chosen.member is not None:
        yield JobRecord.first_member == chosen.member
    if chosen.model is not None:
        yield sa.literal(chosen.model) == sa.any_(JobRecord.first_models)


def _wait_row(found: Sequence[Any], reasons: dict[str, float] | None) -> Row:
    key, submitted, started, waiting, ranks, mean = found
    spans = [None, None, None] if ranks is None else list(ranks)
    return {
        "key": key or None,
        "submitted": submitted,
        "started": started,
        "waiting": waiting,
        "meanS": _whole(mean),
        **{f"p{rank * 100:g}S": _whole(span) for rank, span in zip(PERCENTILES, spans, strict=True)},
        "reasons": reasons,
    }


def _whole(span: timedelta | None) -> float | None:
    """Seconds; a member's clock may be behind the hub's."""
    return None if span is None else round(max(0.0, span.total_seconds()), 3)


def _spent(name: str | None, hours: dict[str, float]) -> Row:
    used, lost = sum(hours.values()), sum(hours.get(outcome, 0.0) for outcome in LOST)
    return {
        "key": name,
        "gpuHours": used,
        "countedGpuHours": used - lost,
        "lostGpuHours": lost,
        "evictedGpuHours": hours.get("Evicted", 0.0),
        "failedGpuHours": hours.get("Failed", 0.0),
        "efficiency": (used - lost) / used if used else None,
    }


def _largest(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row["gpuHours"], row["key"] or ""))


async def _recorded(reader: HistoryReader, period: Period, chosen: JobSelection) -> Period | None:
    """The part of the period whose capacity is known: from its first recorded minute to its last. None where there is
    none, and for a reader of some namespaces, whose part says nothing of the whole."""
    if chosen.sight is not None:
        return None
    ends = await reader.rows(
        sa.select(sa.func.min(UsageRecord.at), sa.func.max(UsageRecord.at)).where(
            UsageRecord.at >= period.start, UsageRecord.at < period.end, UsageRecord.scope == "member"
        )
    )
    if not ends or ends[0][0] is None:
        return None
    first, last = ends[0]
    return Period(first, min(last + MINUTE, period.end), period.now)


def _within(recorded: Period | None) -> Any:
    """GPU-seconds in the part of the period whose capacity is known."""
    return (sa.literal(0.0) if recorded is None else sa.func.sum(_used(recorded))).label("within")


async def _shares(
    reader: HistoryReader,
    by: ReportGrouping,
    recorded: Period | None,
    chosen: JobSelection,
    within: dict[str | None, float],
    rows: list[Row],
    total: Row,
) -> None:
    """Add capacity and share; null where the capacity is not known, and in rows that are no part of the members.
    `within`: GPU-hours in the recorded part, by row."""
    capacity = {} if recorded is None else await _capacity(reader, recorded, chosen)
    sums: dict[str | None, float] = {}
    for (member, model), hours in capacity.items():
        name = (member if by is ReportGrouping.MEMBER else model) or None
        sums[name] = sums.get(name, 0.0) + hours
    for row in (*rows, total):
        there = sum(capacity.values()) if row is total else sums.get(row["key"], 0.0) if by in PLACES else 0.0
        used = sum(within.values()) if row is total else within[row["key"]]
        row |= {"capacityGpuHours": there or None, "share": used / there if there else None}


async def _capacity(reader: HistoryReader, recorded: Period, chosen: JobSelection) -> dict[tuple[str, str], float]:
    """GPU-hours that the members had, by member and model."""
    conditions: list[Condition] = [UsageRecord.scope == "member"]
    if chosen.member is not None:
        conditions.append(UsageRecord.name == chosen.member)
    if chosen.model is not None:
        conditions.append(UsageRecord.model == chosen.model)
    sampled = UsageRecord.at == sa.any_(sa.literal(_minutes(recorded), ARRAY(sa.TIMESTAMP(timezone=True))))
    sums, minutes = await reader.together(
        sa.select(UsageRecord.name, UsageRecord.model, sa.func.sum(UsageRecord.capacity))
        .where(sampled, *conditions)
        .group_by(UsageRecord.name, UsageRecord.model),
        sa.select(sa.func.count(sa.distinct(UsageRecord.at))).where(sampled, UsageRecord.scope == "member"),
    )
    hours = (recorded.end - recorded.start).total_seconds() / HOUR_S / max(1, minutes[0][0])
    return {(name, model): capacity * hours for name, model, capacity in sums if capacity}


def _minutes(recorded: Period) -> list[datetime]:
    """The minutes to look at, evenly spread."""
    count = -(-(recorded.end - recorded.start) // MINUTE)
    step = -(-count // SAMPLES)
    return [recorded.start + MINUTE * number for number in range(0, count, step)]
