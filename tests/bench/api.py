"""The hub with its PostgreSQL against kube-apiserver with etcd: the same requests by the same program, in turns.

Both run on this machine, speak TLS and HTTP/1.1, check a service account's token and ask RBAC. Each measurement is made
of one and the other within a second or two, and repeated, so that what else the machine does falls on both. The table
also names the part that bound each: the one that used the most of the processor's cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from api.wire.protobuf.answers import whole
from tests.bench import versus
from tests.bench.loader import APPLY, CLIENT, JSON, MERGE, NUMBER, PROTOBUF, STAMP, Loader, Request, Result, Task
from tests.bench.report import Report, say
from tests.bench.servers import CONFIGMAPS, NAMESPACE, Server, asked, started_hub, started_real
from tests.bench.versus import Row

SECONDS = 0.6  # of one measurement
WATCHED_S = 1.2
VALUES = {f"key-{number}": "x" * 90 for number in range(8)}  # an object of about 1 KB
CLIENTS_MOST = 50
WATCHERS, WRITERS, CALM_WRITES = 100, 10, 50.0
GROUPS = 10  # of the objects in a list, by label
SIZES = (500, 4000)
FORMS = (JSON, PROTOBUF)
VALUE = f"value-{NUMBER}"  # of a write that changes something


@dataclass
class Case:
    """One measurement. `task`: the request at the given number; `value`: what counts of the result."""

    name: str
    unit: str
    goal: float | None  # times theirs; at most theirs where less is better
    task: Task
    value: str = "per_s"
    less: bool = False
    results: dict[str, list[Result]] = field(default_factory=dict)


def body(name: str, form: str = JSON, values: dict[str, str] | None = None, **metadata: Any) -> bytes:
    """A ConfigMap of about 1 KB."""
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "data": {**VALUES, **(values or {})},
    }
    return whole(made) if form == PROTOBUF else json.dumps(made).encode()


def lists_of(size: int) -> str:
    return CONFIGMAPS.replace(NAMESPACE, f"{NAMESPACE}-{size}")


def cases() -> Iterator[Case]:
    for form in FORMS:
        mark = "" if form == JSON else ", protobuf"
        prefix = "json" if form == JSON else "proto"
        own = f"{CONFIGMAPS}/own-{CLIENT}"
        for clients in (1, 10, CLIENTS_MOST):
            goal = 1.2 if clients == 1 else 2.0
            many = f"{clients} client{'s' if clients > 1 else ''}{mark}"
            new = Request("POST", CONFIGMAPS, body(f"{prefix}-{clients}-{NUMBER}", form), form, form)
            changed = Request("PUT", own, body(f"own-{CLIENT}", form, {"key-0": VALUE}), form, form)
            yield Case(f"create, {many}", "1/s", goal, Task(new, clients, SECONDS))
            yield Case(f"get, {many}", "1/s", goal, Task(Request("GET", own, accept=form), clients, SECONDS))
            yield Case(f"update, {many}", "1/s", goal, Task(changed, clients, SECONDS))
        merge = Request("PATCH", own, json.dumps({"data": {"key-1": VALUE}}).encode(), MERGE, form)
        applied = body(f"applied-{CLIENT}", values={"key-1": VALUE})
        apply = Request("PATCH", f"{CONFIGMAPS}/applied-{CLIENT}?fieldManager=applier", applied, APPLY, form)
        for clients in (1, 10):
            many = f"{clients} client{'s' if clients > 1 else ''}{mark}"
            yield Case(f"merge patch, {many}", "1/s", 1.5, Task(merge, clients, SECONDS))
            yield Case(f"server-side apply, {many}", "1/s", 1.5, Task(apply, clients, SECONDS))
        for size in SIZES:
            whole_list = Request("GET", lists_of(size), accept=form)
            yield Case(f"list of {size:,}{mark}", "1/s", 5.0, Task(whole_list, 1, SECONDS))
        large = lists_of(SIZES[-1])
        labelled = Request("GET", f"{large}?labelSelector=group%3Dg3", accept=form)
        named = Request("GET", f"{large}?fieldSelector=metadata.name%3Ditem-0000000007", accept=form)
        yield Case(f"{SIZES[-1] // GROUPS} of {SIZES[-1]:,} by label{mark}", "1/s", 2.0, Task(labelled, 1, SECONDS))
        yield Case(f"1 of {SIZES[-1]:,} by field{mark}", "1/s", None, Task(named, 1, SECONDS))
        watched = f"{CONFIGMAPS}/watched-{CLIENT}"
        watch = Request("GET", f"{CONFIGMAPS}?watch=true&resourceVersion=REVISION", accept=form)
        patch = Request("PATCH", watched, json.dumps({"data": {"key-0": STAMP}}).encode(), MERGE)
        busy = Task(patch, WRITERS, WATCHED_S, watchers=WATCHERS, watch=watch)
        calm = Task(patch, WRITERS, WATCHED_S, rate=CALM_WRITES, watchers=WATCHERS, watch=watch)
        yield Case(f"{WATCHERS} watchers, {WRITERS} writers{mark}", "events/s", 2.0, busy, "events_per_s")
        yield Case(f"p99 of their lag{mark}", "ms", 1.0, busy, "LagP99", less=True)
        yield Case(f"p99 of the lag at {CALM_WRITES:g} writes/s{mark}", "ms", 1.0, calm, "LagP99", less=True)


def fill(loader: Loader, server: Server) -> None:
    """The objects that are read and changed, and the namespaces that are listed."""
    for name, count in (("own", CLIENTS_MOST), ("watched", WRITERS)):
        loader.run(server, Task(Request("POST", CONFIGMAPS, body(f"{name}-{NUMBER}")), 10, count=count))
    with server.client() as client:
        for size in SIZES:
            asked(client.post("/api/v1/namespaces", json={"metadata": {"name": f"{NAMESPACE}-{size}"}}))
            server.grant(client, f"{NAMESPACE}-{size}")
    for size in SIZES:
        for group in range(GROUPS):
            made = body(f"item-{NUMBER}", labels={"group": f"g{group}"}, namespace=f"{NAMESPACE}-{size}")
            count = size // GROUPS
            loader.run(server, Task(Request("POST", lists_of(size), made), 10, count=count, first=group * count))


class Run:
    """All cases on both servers, in turns."""

    def __init__(self, loader: Loader, servers: tuple[Server, Server]) -> None:
        self._loader, self._servers = loader, servers
        self._first = 0

    def measure(self, rounds: int) -> list[Row]:
        measured = list(cases())
        for number in range(rounds + 1):  # the first one warms up, and counts for nothing
            say(f"round {number} of {rounds}")
            done: dict[Task, dict[str, Result]] = {}
            for case in measured:
                if case.task not in done:
                    order = self._servers if number % 2 else self._servers[::-1]
                    done[case.task] = {server.name: self._once(server, case.task, number == 0) for server in order}
                for name, result in done[case.task].items():
                    if number:
                        case.results.setdefault(name, []).append(result)
        hub, real = (server.name for server in self._servers)
        return [
            Row.of(case.name, case.unit, case.goal, case.less, case.value, case.results[hub], case.results[real])
            for case in measured
        ]

    def _once(self, server: Server, task: Task, warm: bool) -> Result:
        self._first += 1_000_000  # no name is given twice
        watch = task.watch
        if watch is not None:
            with server.client(server.token) as client:
                revision = asked(client.get(f"{CONFIGMAPS}?limit=1")).json()["metadata"]["resourceVersion"]
            watch = replace(watch, path=watch.path.replace("REVISION", revision))
        seconds = task.seconds / 4 if warm else task.seconds
        return self._loader.run(server, replace(task, first=self._first, watch=watch, seconds=seconds))


def measure(report: Report, folder: Path, rounds: int) -> None:
    loader = Loader()
    try:
        with started_real(folder / "real") as real, started_hub(folder / "hub") as hub:
            for server in (real, hub):
                say(f"filling {server.name}")
                fill(loader, server)
            rows = Run(loader, (hub, real)).measure(rounds)
    finally:
        loader.close()
    versus.add(report, rows)
    versus.write(rows, Path("build/bench-api"))
