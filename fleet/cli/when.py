"""Times that people type."""

from __future__ import annotations

import re

from fleet.cli.failure import Failure
from fleet.model.times import instant, rfc3339, seconds

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str, option: str) -> float:
    """Seconds of 90s, 30m, 12h or 2d. Raises Failure."""
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise Failure(f"{option} {text}: is no duration such as 90m, 12h or 2d")
    return float(found[1]) * _SECONDS[found[2]]


def moment(text: str, now: float) -> str:
    """The time, in RFC 3339, that --since names. Raises Failure."""
    at = text if "-" in text else instant(now - duration(text, "--since"))
    there = seconds(at)
    if there is None:
        raise Failure(
            f"--since {text}: is neither a duration such as 90m, 12h or 2d nor a time such as 2026-01-31T08:00Z"
        )
    return rfc3339(there)
