"""Names, types and texts of all metrics follow the conventions of Prometheus, as `promtool check metrics` asks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from api.access.oidc.metrics import OidcMetrics
from api.audit.metrics import AuditMetrics
from api.server.health import Metrics as ApiMetrics
from fleet.controllers.runtime.metrics import Metrics
from tests.controllers.runtime.metric_names import faults


def registries() -> Iterable[tuple[str, CollectorRegistry]]:
    yield "controllers", Metrics().registry
    api = ApiMetrics()
    api.count("get", "pods", 200, 0.1)
    for others in (OidcMetrics(), AuditMetrics()):
        others.show(api.registry)
    yield "api", api.registry


@pytest.mark.parametrize(("process", "registry"), [*registries()], ids=("controllers", "api"))
def test_each_metric_keeps_the_conventions(process: str, registry: CollectorRegistry) -> None:
    found = [metric for metric in registry.collect() if not metric.name.startswith("process_")]
    assert {metric.name: list(faults(metric)) for metric in found if list(faults(metric))} == {}
    names = [metric.name for metric in found]
    assert len(names) == len(set(names)) > 10, process


@pytest.mark.parametrize(
    ("name", "kind", "text", "fault"),
    [
        ("fleet_wait_ms", "gauge", "Time.", "base unit"),
        ("fleet_jobs_total", "gauge", "Jobs.", "ends as a counter"),
        ("fleet_Jobs", "gauge", "Jobs.", "small letters"),
        ("fleet_jobs", "gauge", "", "no text"),
        ("fleet_wait", "histogram", "Time.", "no unit"),
        ("fleet_jobs_gauge", "gauge", "Jobs.", "its type"),
    ],
)
def test_a_metric_that_breaks_one_is_found(name: str, kind: str, text: str, fault: str) -> None:
    assert fault in " ".join(faults(Metric(name, text, kind)))
