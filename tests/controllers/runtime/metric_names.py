"""The conventions for names of metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

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
