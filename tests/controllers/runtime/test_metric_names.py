"""Names, types and texts of all metrics follow the conventions of Prometheus, as `promtool check metrics` asks."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from api.access.oidc.metrics import OidcMetrics
from api.audit.metrics import AuditMetrics
from api.server.health import Metrics as ApiMetrics
from fleet.controllers.runtime.metrics import Metrics

TYPES = ("counter", "gauge", "histogram", "summary")
RESERVED = ("_total", "_sum", "_count", "_bucket", "_created", "_info")
INFO = "fleet_build_info"  # its name is a convention of its own, and its type in the text format is gauge
NO_BASE_UNITS = {
    "ms",
    "milliseconds",
    "us",
    "microseconds",
    "minutes",
    "hours",
    "days",
    "kb",
    "mb",
    "gb",
    "kilobytes",
    "megabytes",
    "percent",
    "millicores",
    "mib",
    "gib",
    "secs",
    "sec",
}
TIMES = re.compile(r"_(seconds|ratio|bytes)$")


def faults(metric: Metric) -> Iterable[str]:
    words = metric.name.split("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", metric.name) or "__" in metric.name:
        yield "is not in small letters with single underscores"
    if not metric.documentation.strip().endswith("."):
        yield "has no text, or one that does not end"
    if metric.type != "counter" and metric.name != INFO and metric.name.endswith(RESERVED):
        yield "ends as a counter or as a part of another metric does"
    if NO_BASE_UNITS & set(words):
        yield "is not in a base unit"
    if set(TYPES) & set(words):
        yield "names its type"
    if metric.type == "histogram" and not TIMES.search(metric.name):
        yield "is a histogram that names no unit"
    if metric.type not in TYPES:
        yield f"is of type {metric.type}"
    if any(not re.fullmatch(r"[a-z][a-z_]*", label) for one in metric.samples for label in one.labels):
        yield "has a label that is not in small letters"


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
