"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds (microseconds where a MicroTime is wanted)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(now: float) -> str:
    """`now` is in seconds since the epoch: "2024-05-01T12:00:00Z"."""
    return _second(int(now))


@lru_cache(maxsize=64)  # the writes of one second share its text
def _second(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(now: float) -> str:
    """As Lease.spec.renewTime wants it: "2024-05-01T12:00:00.000000Z"."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: str) -> float | None:
    """The epoch seconds of an RFC 3339 text, or None when it is not one."""
    try:
        found = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
