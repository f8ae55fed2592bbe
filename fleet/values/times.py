"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds (microseconds where a MicroTime is wanted).

Inside Fleet a time is a number of seconds since the epoch. Every text of a time is read and written here. The calendar
has the years 1 to 9999 in UTC: what is read can be written, and a text beyond them is no time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_MICROS = 7  # characters of a fraction of six digits
_FIRST, _END = -62_135_596_800.0, 253_402_300_800.0  # the years 1 and 10000


def rfc3339(now: float) -> str:
    """Return "2024-05-01T12:00:00Z" for seconds since the epoch.

    Raises ValueError, OverflowError or OSError where no calendar reaches.
    """
    return _second(int(now // 1))


@lru_cache(maxsize=64)  # the writes of one second share its text
def _second(now: int) -> str:
    return f"{datetime.fromtimestamp(now, UTC).isoformat()[:19]}Z"


def rfc3339_micro(now: float) -> str:
    """Return "2024-05-01T12:00:00.000000Z", as Lease.spec.renewTime wants it."""
    whole, micros = divmod(round(now * 1_000_000), 1_000_000)
    return f"{_second(whole)[:-1]}.{micros:06d}Z"


def instant(now: float) -> str:
    """Return the same, or the number itself where no calendar reaches."""
    try:
        return rfc3339(now)
    except (OverflowError, ValueError, OSError):
        return str(now)


def in_calendar(now: float) -> bool:
    """Return whether the calendar has this time."""
    return _FIRST <= now < _END


def moment(text: object) -> datetime | None:
    """Return a time as text in UTC, to the microsecond, or None for anything else. A time without an offset is in
    UTC."""
    try:
        read = datetime.fromisoformat(text.upper())  # type: ignore[attr-defined]  # an AttributeError is an answer, too
    except (ValueError, AttributeError):
        return None
    return in_utc(read if read.tzinfo else read.replace(tzinfo=UTC))


def in_utc(at: datetime) -> datetime | None:
    """Return the same point in time in UTC, or None where the calendar does not reach it there."""
    try:
        there = at.astimezone(UTC)
    except OverflowError:
        return None
    return there if in_calendar(there.timestamp()) else None  # the last microseconds have the number of the next year


def seconds(text: object) -> float | None:
    """Return the epoch seconds of a time as text, or None for anything else, as `moment`."""
    there = moment(text)
    return there.timestamp() if there is not None else None


def is_rfc3339(text: str, *, micro: bool = False) -> bool:
    """Return whether the text is a time in the form of RFC 3339, with six decimals where `micro`."""
    form = RFC3339.fullmatch(text)
    return form is not None and (not micro or len(form[1] or "") == _MICROS) and moment(text) is not None
