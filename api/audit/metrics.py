"""The events of the audit log, counted by what became of them."""

from __future__ import annotations

from enum import StrEnum

import structlog
from prometheus_client import CollectorRegistry, Counter

SAY_EVERY_S = 60.0  # the same loss is logged once in this time
log = structlog.get_logger(__name__)


class Outcome(StrEnum):
    """What became of an event."""

    WRITTEN = "Written"
    OVERFLOW = "Overflow"  # more events came than the place took, and the buffer was full
    UNWRITABLE = "Unwritable"  # the file refused it, or the receiver after its last try


class AuditMetrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._events = Counter(
            "fleet_api_audit_events_total",
            "Events of the audit log by what became of them.",
            ("to", "outcome"),
            registry=self.registry,
        )

    def show(self, registry: CollectorRegistry) -> None:
        """Add the metrics to those of another registry."""
        registry.register(self._events)

    def of(self, place: str) -> SinkCounts:
        return SinkCounts(place, self._events)


class SinkCounts:
    """The counts of one place. Losses are said in the log too, with their number since the last time. May be called on
    any thread."""

    def __init__(self, place: str, events: Counter) -> None:
        self._place = place
        self._counters = {outcome: events.labels(place, outcome.value) for outcome in Outcome}
        self._unsaid = dict.fromkeys(Outcome, 0)
        self._said_at = dict.fromkeys(Outcome, float("-inf"))

    def written(self, count: int) -> None:
        self._counters[Outcome.WRITTEN].inc(count)

    def lost(self, outcome: Outcome, count: int, now: float, why: str) -> None:
        """`now`: on a clock that only goes on."""
        self._counters[outcome].inc(count)
        self._unsaid[outcome] += count
        if now - self._said_at[outcome] >= SAY_EVERY_S:
            self._said_at[outcome] = now
            lost, self._unsaid[outcome] = self._unsaid[outcome], 0
            log.error("audit events are lost", to=self._place, outcome=outcome.value, events=lost, why=why)
