"""Periods as people name them: 7d, yesterday, 2026-11, 2026-11-05, or a time. All in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fleet.cli.failure import Failure
from fleet.cli.when import duration
from fleet.values.times import rfc3339, seconds

FORMS = "7d, 12h, today, yesterday, 2026, 2026-11, 2026-11-05 or 2026-11-05T08:00Z"
_LASTING = re.compile(r"[\d.]+[smhd]")
_CALENDAR = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
DAY = timedelta(days=1)


def bounds(
    from_: str | None,
    to: str | None,
    now: float,
    options: tuple[str, str] = ("--from", "--to"),
    *,
    open_end: bool = False,
) -> tuple[datetime | None, datetime | None]:
    """Start and end of what two options name. A month or a day that the second names belongs to the period. The first
    alone means the whole month or day, or else up to now; with `open_end` it has no end. None: not given. Raises
    Failure."""
    start, end = period(from_, options[0], now) if from_ else (None, None)
    if to:
        begun, ended = period(to, options[1], now)
        end = ended or begun
    elif open_end:
        end = None
    last = end or _moment(now)
    if start is not None and start >= last:
        raise Failure(f"{options[0]} {from_}: is not before the end, {rfc3339(last.timestamp())}")
    return start, end


def period(text: str, option: str, now: float) -> tuple[datetime, datetime | None]:
    """The start of what `text` names, and its end; None: a moment, or a time before now. Raises Failure."""
    moment = _moment(now)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if text == "today":
            return midnight, midnight + DAY
        if text == "yesterday":
            return midnight - DAY, midnight
        if _LASTING.fullmatch(text):
            return moment - timedelta(seconds=duration(text, option)), None
        if found := _CALENDAR.fullmatch(text):
            return _calendar(*(int(part) for part in found.groups() if part))
        at = seconds(text)
        if at is not None:
            return datetime.fromtimestamp(at, UTC), None
    except (ValueError, OverflowError):
        pass
    raise Failure(f"{option} {text}: is none of the forms {FORMS}")


def _moment(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC)


def _calendar(year: int, month: int | None = None, day: int | None = None) -> tuple[datetime, datetime]:
    """A year, a month of it, or a day."""
    first = datetime(year, 1 if month is None else month, 1 if day is None else day, tzinfo=UTC)
    if day is not None:
        return first, first + DAY
    if month is not None:
        return first, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return first, datetime(year + 1, 1, 1, tzinfo=UTC)
