"""What requests for 100,000 objects do to another user, beside a kube-apiserver.

    python -m tests.bench.run large

Another user gets one object 200 times a second. Meanwhile somebody asks once for something that looks at all objects.
The figures are how long that takes, and how long the other user waits at most. The first pages of lists are asked for
again and again, while one object changes 50 times a second.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.api import body
from tests.bench.fairness import other_user
from tests.bench.loader import JSON, MERGE, NUMBER, PROTOBUF, STAMP, Loader, Request, Task
from tests.bench.report import Figure, Report
from tests.bench.servers import CONFIGMAPS, Server, started_hub, started_real

OBJECTS = 100_000
GROUPS = 10
CHANGES_PER_S = 50.0
GETS_PER_S = 200.0
BEFORE_S = 0.5  # of gets, before the request
PAGES_S = 3.0
WINDOW_S = 8.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WATCH = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=4"
ASKED = {
    "by a label, first": ("labelSelector=group%3Dg3", JSON),
    "by a label, again": ("labelSelector=group%3Dg3", JSON),
    "by a label that nothing has": ("labelSelector=absent", JSON),
    "all": ("", JSON),
    "all in protobuf": ("", PROTOBUF),
    "all as a table": ("", TABLE),
    "first events of a watch": (WATCH, JSON),
}


def measure(report: Report, folder: Path, rounds: int) -> None:
    asking, getting = Loader(), Loader()
    found: dict[tuple[str, str], list[float]] = {}
    try:
        with started_hub(folder / "hub") as hub, started_real(folder / "real") as real, ThreadPoolExecutor(1) as beside:
            for server in (hub, real):
                _fill(asking, server)
                other = other_user(server)
                for number in range(rounds):
                    figures = _pages(asking, getting, beside, server, other)
                    for name, (query, form) in ASKED.items():
                        if number and name.endswith("first"):
                            continue
                        get = Request("GET", f"{CONFIGMAPS}/kept-0000000007")
                        probe = beside.submit(getting.run, other, Task(get, 1, WINDOW_S, rate=GETS_PER_S))
                        time.sleep(BEFORE_S)
                        took = asking.run(
                            server, Task(Request("GET", f"{CONFIGMAPS}?{query}", accept=form), 1, count=1)
                        )
                        figures[f"list {name}, s"] = took.figures["Seconds"]
                        figures[f"other's get at most, list {name}, ms"] = probe.result().figures["Max"]
                    for name, value in figures.items():
                        found.setdefault((name, server.name), []).append(value)
    finally:
        asking.close()
        getting.close()
    for name in dict.fromkeys(name for name, _ in found):
        title, _, unit = name.rpartition(", ")
        for server_name in (hub.name, real.name):
            values = tuple(found[name, server_name])
            report.add(
                Figure(f"{server_name}: {title}", unit, values, "", real.name if server_name == hub.name else "")
            )


def _fill(loader: Loader, server: Server) -> None:
    for group in range(GROUPS):
        made, count = body(f"kept-{NUMBER}", labels={"group": f"g{group}"}), OBJECTS // GROUPS
        loader.run(server, Task(Request("POST", CONFIGMAPS, made), 20, count=count, first=group * count))


def _pages(
    asking: Loader, changing: Loader, beside: ThreadPoolExecutor, server: Server, other: Server
) -> dict[str, float]:
    """First pages of 500, while an object changes."""
    change = Request("PATCH", f"{CONFIGMAPS}/kept-0000000009", b'{"data":{"key-0":"%s"}}' % STAMP.encode(), MERGE)
    under_way = beside.submit(changing.run, other, Task(change, 1, PAGES_S + 2 * BEFORE_S, rate=CHANGES_PER_S))
    time.sleep(BEFORE_S)
    pages = asking.run(server, Task(Request("GET", f"{CONFIGMAPS}?limit=500"), 1, PAGES_S)).figures
    under_way.result()
    return {"first page of 500, p50, ms": pages["P50"], "first page of 500, p99, ms": pages["P99"]}
