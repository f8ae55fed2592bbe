"""The events of a job that people are told of, and the annotation by which a job names its receivers."""

from __future__ import annotations

import re
from enum import StrEnum

NAMED_MAX = 10
_ENTRY = re.compile(r"\s*([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)\s*(?:=\s*([A-Za-z]+(?:\s*\+\s*[A-Za-z]+)*)\s*)?")


class NotificationEvent(StrEnum):
    STARTED = "Started"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    EVICTED = "Evicted"
    WAITS_LONG = "WaitsLong"


def receivers_of(annotation: str) -> dict[str, frozenset[NotificationEvent] | None]:
    """The receivers that a job names, and the events that it asks for (None: those of the receiver), as in
    `chat=Started+Failed,mail`. ValueError says what is wrong."""
    receivers: dict[str, frozenset[NotificationEvent] | None] = {}
    for entry in annotation.split(","):
        parsed = _ENTRY.fullmatch(entry)
        if parsed is None:
            raise ValueError(f'"{entry.strip()[:100]}" is no NAME or NAME=EVENT+EVENT')
        events = [event.strip() for event in parsed[3].split("+")] if parsed[3] else []
        wrong = next((event for event in events if event not in tuple(NotificationEvent)), None)
        if wrong is not None:
            raise ValueError(f'"{wrong[:100]}" is none of {", ".join(NotificationEvent)}')
        receivers[parsed[1]] = frozenset(map(NotificationEvent, events)) or None
    if len(receivers) > NAMED_MAX:
        raise ValueError(f"{len(receivers)} receivers, at most {NAMED_MAX}")
    return receivers
