"""The release of a process, in its metrics."""

from __future__ import annotations

import platform

from prometheus_client import CollectorRegistry, Gauge

from fleet.values.release import running


def show(registry: CollectorRegistry) -> None:
    """Add `fleet_build_info` to the metrics of a process."""
    info = Gauge(
        "fleet_build_info", "1, with the release of this process.", ("version", "commit", "python"), registry=registry
    )
    version, commit = running()
    info.labels(version, commit, platform.python_version()).set(1)
