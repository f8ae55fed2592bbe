"""Metrics of priority and fairness, under the names of a kube-apiserver: plain numbers, read when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from api.fairness.scheduler import Scheduler

_PREFIX = "apiserver_flowcontrol"
_WAITS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15)


@dataclass(slots=True)
class Tally:
    """Requests of one schema at one level."""

    dispatched: int = 0


class RequestCounts:
    """Counted requests. A counter of the library costs more than the rest of an undisturbed request's way."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._refused: Counter[tuple[str, str, str]] = Counter()
        self._waits = Histogram(
            f"{_PREFIX}_request_wait_duration_seconds",
            "Time in a queue, of requests that waited.",
            ("priority_level",),
            registry=None,
            buckets=_WAITS,
        )

    def tally(self, schema: str, level: str) -> Tally:
        return self._tallies.setdefault((schema, level), Tally())

    def refused(self, tally: Tally, why: str) -> None:
        schema, level = next(names for names, known in self._tallies.items() if known is tally)
        self._refused[schema, level, why] += 1

    def waited(self, level: str, seconds: float) -> None:
        self._waits.labels(level).observe(seconds)

    def show(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        """Labels are names of stored objects that classified a request, so only as many as administrators make."""
        classes = ("flow_schema", "priority_level")
        dispatched = CounterMetricFamily(
            f"{_PREFIX}_dispatched_requests", "Requests that were let through.", labels=classes
        )
        for names, tally in self._tallies.items():
            dispatched.add_metric(names, tally.dispatched)
        refused = CounterMetricFamily(
            f"{_PREFIX}_rejected_requests", "Requests refused with 429, by reason.", labels=(*classes, "reason")
        )
        for labels, count in self._refused.items():
            refused.add_metric(labels, count)
        yield dispatched
        yield refused
        yield from self._waits.collect()
        for name, text, value in (
            ("nominal_limit_seats", "Seats of a level.", "nominal"),
            ("current_executing_seats", "Seats in use.", "in_use"),
            ("current_inqueue_requests", "Steps of requests that wait.", "waiting"),
        ):
            gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=("priority_level",))
            for level in self._scheduler.levels.values():
                gauge.add_metric((level.name,), getattr(level, value))
            yield gauge
