"""What a hub costs when nothing happens: seconds to its second start, memory, and processor time while idle."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil

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
        family = _family(hub)
        before, clock = _cpu_seconds(family), time.monotonic()
        time.sleep(IDLE_S)
        cpu.append(100 * (_cpu_seconds(family) - before) / (time.monotonic() - clock))
        memory.append(sum(_pss_mib(process) for process in family))
        hub.stop()
    report.add(Figure("fleet up, second start", "s", tuple(starts), "< 5"))
    report.add(Figure("idle: memory (PSS)", "MiB", tuple(memory), "< 600"))
    report.add(Figure("idle: processor", "% core", tuple(cpu), "< 5"))


def _family(hub: Hub) -> list[psutil.Process]:
    """Every process of the hub: the supervisor's children, and PostgreSQL, which may not be one of them."""
    top = psutil.Process(hub.pid)
    found = {process.pid: process for process in [top, *top.children(recursive=True)]}
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if any(str(hub.folder) in part for part in process.info["cmdline"] or []):
            for one in [process, *process.children(recursive=True)]:
                found[one.pid] = one
    return list(found.values())


def _cpu_seconds(family: list[psutil.Process]) -> float:
    total = 0.0
    for process in family:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _pss_mib(process: psutil.Process) -> float:
    """The process's share of memory, pages shared with others counted in part."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found[1]) / 1024 if found else 0.0
