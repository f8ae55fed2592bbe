"""CEL's functions over points in time and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from fleet.values.cel.values import NO_OVERLOAD, Duration, Evaluation, NoValue, Timestamp

_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)")


def _local(moment: Timestamp, zone: Any) -> datetime:
    if not isinstance(zone, str):
        raise NoValue(NO_OVERLOAD)
    try:
        match = _OFFSET.fullmatch(zone)
        if match is not None:
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return moment.moment().astimezone(timezone(-offset if match[1] == "-" else offset))
        return moment.moment().astimezone(ZoneInfo(zone or "UTC"))
    except (ValueError, OSError, KeyError, OverflowError):
        raise NoValue(f"unknown time zone {zone[:50]}") from None


def _of_date(part: Callable[[datetime], int]) -> Callable[..., int]:
    def get(run: Evaluation, value: Any, zone: Any = "UTC") -> int:
        if type(value) is not Timestamp:
            raise NoValue(NO_OVERLOAD)
        return part(_local(value, zone))

    return get


def _of_time(part: Callable[[datetime], int], ns: int) -> Callable[..., int]:
    """`ns`: of a duration, the unit that it is counted in."""
    of_date = _of_date(part)

    def get(run: Evaluation, value: Any, zone: Any = "UTC") -> int:
        if type(value) is Duration:
            return -(-value.ns // ns) if value.ns < 0 else value.ns // ns
        return of_date(run, value, zone)

    return get


TIMES: dict[str, tuple[Callable[..., Any], int]] = {
    "getFullYear": (_of_date(lambda at: at.year), 1),
    "getMonth": (_of_date(lambda at: at.month - 1), 1),
    "getDayOfYear": (_of_date(lambda at: at.timetuple().tm_yday - 1), 1),
    "getDayOfMonth": (_of_date(lambda at: at.day - 1), 1),
    "getDate": (_of_date(lambda at: at.day), 1),
    "getDayOfWeek": (_of_date(lambda at: at.isoweekday() % 7), 1),
    "getHours": (_of_time(lambda at: at.hour, 3_600_000_000_000), 1),
    "getMinutes": (_of_time(lambda at: at.minute, 60_000_000_000), 1),
    "getSeconds": (_of_time(lambda at: at.second, 1_000_000_000), 1),
    "getMilliseconds": (_of_time(lambda at: at.microsecond // 1000, 1_000_000), 1),
}
