"""/version, health and metrics: what is asked for without naming an object."""

from __future__ import annotations

import platform
import re
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from api.edge import EdgeMetrics
from api.http import Response, json_response, text_response
from fleet.ports import Store, StoreUnavailable

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/healthz/", "/livez/", "/readyz/", "/version/"})
_SEMVER = re.compile(r"v(\d+)\.(\d+)\.\d+(?:[-+][0-9A-Za-z.+-]+)?")


class Metrics:
    """Request counts, latencies and open watches, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "fleet_api_requests_total", "Requests by verb, resource and code.", ("verb", "resource", "code"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "fleet_api_request_seconds", "Time to answer a request that is not a watch.", ("verb",),
            registry=self.registry, buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )  # fmt: skip
        self.watches = Gauge("fleet_api_watches", "Open watches.", registry=self.registry)
        self.edge = EdgeMetrics(self.registry)
        # Looking a labelled child up costs more than counting, so children are kept.
        self._counters: dict[tuple[str, str, int], Any] = {}
        self._histograms: dict[str, Any] = {}

    def count(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        """One answered request; `resource` must be one that is served, or "", since labels must be bounded."""
        key = (verb, resource, code)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(verb, resource, str(code))
        counter.inc()
        if seconds is not None:
            histogram = self._histograms.get(verb)
            if histogram is None:
                histogram = self._histograms[verb] = self._seconds.labels(verb)
            histogram.observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self.registry), content_type=CONTENT_TYPE_LATEST)


def version_document(version: str) -> dict[str, str]:
    """GET /version for a semantic version such as v1.36.3-fleet.0; ValueError for anything else."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"not a semantic version: {version}")
    return {
        "major": match[1], "minor": match[2], "gitVersion": version, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "CPython",
        "platform": f"linux/{platform.machine().replace('x86_64', 'amd64').replace('aarch64', 'arm64')}",
    }  # fmt: skip


async def answer_open(path: str, store: Store, version: dict[str, str]) -> Response:
    """The paths that need no credentials. /readyz fails while the store cannot be read."""
    path = path.rstrip("/")
    if path == "/version":
        return json_response(version)
    if path == "/readyz":
        try:
            await store.revision()
        except StoreUnavailable:
            return text_response("store unavailable", 503)
    return text_response("ok")
