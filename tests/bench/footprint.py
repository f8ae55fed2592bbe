"""The cost of a hub when nothing happens: seconds to its second start, memory, and processor time while idle."""

from __future__ import annotations

import time
from pathlib import Path

from tests.bench.family import cpu_seconds, family, pss_mib
from tests.bench.report import Figure, Report
from tests.e2e.hub import Hub

IDLE_S = 30.0
SETTLE_S = 10.0


def measure(report: Report, folder: Path, rounds: int) -> None:
    hub = Hub(folder / "footprint")
    hub.start()
    hub.stop()
    starts: list[float] = []
    memory: list[float] = []
    cpu: list[float] = []
    for _ in range(rounds):
        begin = time.monotonic()
        hub.start()
        starts.append(time.monotonic() - begin)
        time.sleep(SETTLE_S)
        processes = family(hub)
        before, clock = cpu_seconds(processes), time.monotonic()
        time.sleep(IDLE_S)
        cpu.append(100 * (cpu_seconds(processes) - before) / (time.monotonic() - clock))
        memory.append(sum(pss_mib(process) for process in processes))
        hub.stop()
    report.add(Figure("fleet up, second start", "s", tuple(starts), "< 5"))
    report.add(Figure("idle: memory (PSS)", "MiB", tuple(memory), "< 600"))
    report.add(Figure("idle: processor", "% core", tuple(cpu), "< 5"))
