"""/version, health and metrics: requests that name no object."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from api import buildinfo
from api.transport.edge import EdgeMetrics
from api.wire.http import Message, Request, Response, Send, json_response, text_response
from fleet.values.boundedvalues import BoundedValues
from fleet.values.ports import Store, StoreUnavailable

disable_created_metrics()  # type: ignore[no-untyped-call]  # a further row for each counter
OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/healthz/", "/livez/", "/readyz/", "/version/"})
PAIRS_MOST, OTHERS = 600, "(others)"  # of a verb and a resource
_SEMVER = re.compile(r"v(\d+)\.(\d+)\.\d+(?:[-+][0-9A-Za-z.+-]+)?")


class Metrics:
    """Request counts, latencies and open watches, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        buildinfo.show(self.registry)
        self._requests = Counter(
            "fleet_api_requests_total",
            "Requests by verb, resource and code.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fleet_api_request_seconds",
            "Time to answer a request that is not a watch.",
            ("verb", "resource"),
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.watches = Gauge("fleet_api_watches", "Open watches.", registry=self.registry)
        self._watch_lag = Histogram(
            "fleet_api_watch_lag_seconds",
            "From the commit of an event until a watcher has it, of some events.",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.agents = Gauge("fleet_api_agents", "Members whose agents are connected here.", registry=self.registry)
        self.edge = EdgeMetrics(self.registry)
        # Looking a labelled child up costs more than counting, so children are kept.
        self._counters: dict[tuple[str, str, int], Any] = {}
        self._histograms: dict[tuple[str, str], Any] = {}
        self._pair = BoundedValues(PAIRS_MOST, OTHERS)

    def count(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        """One answered request; `resource` must be one that is served, a mounted application, or ""."""
        key = (verb, resource, code)
        counter = self._counters.get(key)
        if counter is None:
            verb, resource = self._labels(verb, resource)
            counter = self._counters[key] = self._requests.labels(verb, resource, str(code))
        counter.inc()
        if seconds is not None:
            histogram = self._histograms.get(key[:2])
            if histogram is None:
                histogram = self._histograms[key[:2]] = self._seconds.labels(*self._labels(verb, resource))
            histogram.observe(seconds)

    def _labels(self, verb: str, resource: str) -> tuple[str, str]:
        return (OTHERS, OTHERS) if self._pair(f"{verb} {resource}") == OTHERS else (verb, resource)

    def watch_lag(self, seconds: float) -> None:
        """The clock of the writer may be ahead."""
        self._watch_lag.observe(max(0.0, seconds))

    def counting(self, send: Send, verb: str, resource: str, seconds: Callable[[], float]) -> Send:
        """The `send` of a mounted application, whose answers count when they begin: some never end."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.count(verb, resource, message["status"], seconds())
            await send(message)

        return counted

    def response(self) -> Response:
        return Response(generate_latest(self.registry), content_type=CONTENT_TYPE_LATEST)


def version_document(version: str, commit: str = "") -> dict[str, str]:
    """GET /version for a semantic version such as v1.36.3-fleet.0.1.0; ValueError for anything else."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"not a semantic version: {version}")
    return {
        "major": match[1],
        "minor": match[2],
        "gitVersion": version,
        "gitCommit": commit,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "CPython",
        "platform": f"linux/{platform.machine().replace('x86_64', 'amd64').replace('aarch64', 'arm64')}",
    }


# A check of /readyz: "" when all is well, else what is wrong.
Check = Callable[[], str]


class Health:
    """The paths that need no credentials, as a kube-apiserver answers them: `?verbose` lists checks, `?exclude=NAME`
    leaves one out, /readyz/NAME asks one alone. /livez and /healthz say that the process lives, and no more. A check
    that is not asked for is not made: /readyz/shutdown, whether the process serves, waits for no database."""

    def __init__(self, store: Store, version: dict[str, str], checks: Mapping[str, Check]) -> None:
        self._store, self._version, self._checks = store, version, checks
        self.draining = False  # the process is about to end

    async def answer(self, request: Request) -> Response:
        path, _, check = request.path.strip("/").partition("/")
        if path == "version":
            return json_response(self._version)
        names = self._names if path == "readyz" else ("ping",)
        if check:
            if check not in names:
                return text_response(f"there is no check {check}; there are {', '.join(names)}", 404)
            wrong = await self._check(check)
            return text_response(wrong or "ok", 503 if wrong else 200)
        asked = parse_qs(request.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        excluded = frozenset(asked.get("exclude", ()))
        results = {name: "" if name in excluded else await self._check(name) for name in names}
        return _all(path, results, excluded, "verbose" in asked)

    async def indicators(self) -> Response:
        """/metrics/slis: the state of each check of /readyz as a gauge, under the name of a kube-apiserver's."""
        results = {name: await self._check(name) for name in self._names}
        registry = CollectorRegistry()
        gauge = Gauge(
            "kubernetes_healthcheck",
            "The result of a single check: 1 when all is well.",
            ("name", "type"),
            registry=registry,
        )
        for name, wrong in results.items():
            gauge.labels(name, "readyz").set(not wrong)
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    @property
    def _names(self) -> tuple[str, ...]:
        """The checks of /readyz."""
        return ("ping", "store", *self._checks, "shutdown")

    async def _check(self, name: str) -> str:
        """ "" when all is well, else what is wrong."""
        if name == "store":
            return await of_store(self._store)
        if name == "shutdown":
            return "process is shutting down" if self.draining else ""
        return self._checks[name]() if name in self._checks else ""


async def of_store(store: Store) -> str:
    """What is wrong with the store; "" while it answers."""
    try:
        await store.revision()
    except StoreUnavailable:
        return "store unavailable"
    return ""


def _all(path: str, results: Mapping[str, str], excluded: frozenset[str], verbose: bool) -> Response:
    lines, failed = [], False
    for name, wrong in results.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif wrong:
            failed = True
            lines.append(f"[-]{name} failed: {wrong}")
        else:
            lines.append(f"[+]{name} ok")
    unknown = sorted(excluded - set(results))
    if unknown:
        named = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {named}")
    if failed:
        return text_response("\n".join([*lines, f"{path} check failed", ""]), 503)
    return text_response("\n".join([*lines, f"{path} check passed", ""]) if verbose else "ok")
