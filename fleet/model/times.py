"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds (microseconds where a MicroTime is wanted).

Inside Fleet a time is a number of seconds since the epoch. Every text of a time is read and written here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(now: float) -> str:
    """Return "2024-05-01T12:00:00Z" for seconds since the epoch.

    Raises ValueError, OverflowError or OSError where no calendar reaches.
    """
    return _second(int(now))


@lru_cache(maxsize=64)  # the writes of one second share its text
def _second(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(now: float) -> str:
    """Return "2024-05-01T12:00:00.000000Z", as Lease.spec.renewTime wants it."""
    whole, micros = divmod(round(now * 1_000_000), 1_000_000)
    return f"{_second(whole)[:-1]}.{micros:06d}Z"


def seconds(text: object) -> float | None:
    """Return the epoch seconds of a time as text, or None for anything else. A time without an offset is in UTC."""
    try:
        found = datetime.fromisoformat(text)  # type: ignore[arg-type]  # a TypeError is an answer, too
    except (ValueError, TypeError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
