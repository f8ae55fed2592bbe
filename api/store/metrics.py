"""The metrics of a process's store, for Prometheus: plain numbers of the store's parts, read when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from api.store.postgres import PostgresStore


class StoreMetrics(Collector):
    """May be asked in any thread."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def show(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        store, stats, figures = self._store, self._store.stats, self._store.figures()
        yield GaugeMetricFamily("fleet_store_revision", "Newest revision that this process knows.", figures.revision)
        yield GaugeMetricFamily("fleet_store_commits_waiting", "Commits that no batch has taken yet.", figures.waiting)
        yield CounterMetricFamily("fleet_store_commits", "Commits of this process.", stats.commits)
        yield CounterMetricFamily("fleet_store_writes", "Objects that its commits wrote.", stats.writes)
        yield SummaryMetricFamily(
            "fleet_store_batch_seconds",
            "Batches of commits, one transaction each, and their time.",
            count_value=stats.batches,
            sum_value=stats.batch_s,
        )
        if figures.database_bytes is not None:
            yield GaugeMetricFamily("fleet_store_database_bytes", "Size of the database.", figures.database_bytes)
        labels = ("connection",)
        opened = GaugeMetricFamily("fleet_store_connections", "Open connections to the database.", labels=labels)
        failures = CounterMetricFamily(
            "fleet_store_failures", "Uses of a connection that the database, or the way to it, ended.", labels=labels
        )
        for link in store.links:
            name = link.name.removeprefix("fleet: ")
            opened.add_metric((name,), int(link.open))
            failures.add_metric((name,), link.failures)
        yield opened
        yield failures
