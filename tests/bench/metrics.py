"""How long a scrape of the controllers takes: 1,000 members of two models of GPUs, 10,000 queues with a job in each.

    python -m tests.bench.run metrics

Each scrape meets a snapshot that is new to it, as in a fleet where something changes all the time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from prometheus_client import generate_latest

from tests.bench.report import Figure, Report
from tests.controllers.runtime.large import large_fleet


def measure(report: Report, folder: Path, rounds: int) -> None:
    metrics = large_fleet(members=1_000, models=2)
    took: list[float] = []
    rows = size = 0
    for _ in range(rounds + 1):
        snapshot = replace(metrics._snapshot)
        assert snapshot.backlog.lots, "the decider has sorted it before"
        metrics.see(snapshot)
        began = time.perf_counter()
        text = generate_latest(metrics.registry)
        took.append(time.perf_counter() - began)
        size = len(text)
        rows = text.count(b"\n") - 2 * text.count(b"# TYPE")
        for thread in threading.enumerate():  # between two scrapes there is time enough
            if thread.name == "shares":
                thread.join()
    report.add(Figure("scrape of 1,000 members and 10,000 queues", "s", tuple(took[1:]), "< 1 s"))
    report.add(Figure("rows of that scrape", "rows", (float(rows),)))
    report.add(Figure("its size", "MB", (size / 1e6,), beside="metrics"))
