"""Times that people type."""

from __future__ import annotations

import re
from typing import Any

import typer

from fleet.cli.failure import Failure
from fleet.values.times import instant, rfc3339, seconds

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])")
_PATIENCE = re.compile(_DURATION.pattern + "?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str, option: str) -> float:
    """Seconds of 90s, 30m, 12h or 2d. Raises Failure."""
    found = _DURATION.fullmatch(text)
    if found is None or float(found[1]) <= 0:
        raise Failure(f"{option} {text}: is no duration such as 90m, 12h or 2d")
    return float(found[1]) * _SECONDS[found[2]]


def patience(text: str | float) -> float:
    """Seconds of a --timeout: 600, or a duration as above. For the parser of an option."""
    found = _PATIENCE.fullmatch(str(text))
    if found is None:
        raise typer.BadParameter(f"{text} is neither seconds, such as 600, nor a duration, such as 90s, 10m or 2h")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def timeout_option(until: str, default: str) -> Any:
    """The option --timeout. `until`: the end of the sentence that its help is. `default`: as people would type it."""
    return typer.Option(parser=patience, metavar="TIME", help=f"Time to wait (90s, 10m) {until}.", show_default=default)


def moment(text: str, now: float) -> str:
    """The time, in RFC 3339, that --since names. Raises Failure."""
    at = text if "-" in text else instant(now - duration(text, "--since"))
    there = seconds(at)
    if there is None:
        raise Failure(
            f"--since {text}: is neither a duration such as 90m, 12h or 2d nor a time such as 2026-01-31T08:00Z"
        )
    return rfc3339(there)
