"""Colours of states, on a terminal alone: green goes well, yellow waits, red needs somebody."""

from __future__ import annotations

import os
import sys
from enum import StrEnum

GOOD = ("Running", "Succeeded", "ready", "valid")
BAD = ("Failed", "Unclaimed", "not ready", "over")
_GREEN, _YELLOW, _RED, _PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


class Color(StrEnum):
    auto = "auto"
    always = "always"
    never = "never"


def wanted(color: Color) -> bool:
    """Whether stdout takes colours: https://no-color.org and terminals that know none are honoured."""
    if color is not Color.auto:
        return color is Color.always
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, state: str) -> str:
    """`text` in the colour of a state; a state of several parts has the colour of its worst."""
    parts = state.split(", ")
    if state in ("", "-"):
        return text
    if any(part in BAD for part in parts):
        return f"{_RED}{text}{_PLAIN}"
    return f"{_GREEN if all(part in GOOD for part in parts) else _YELLOW}{text}{_PLAIN}"
