"""The processes of a hub: the processor time and the memory that they have used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.chaos.parts import process_of
from tests.e2e.hub import Hub


@dataclass(frozen=True)
class Family:
    """Seconds of processor time so far: of the controllers, and of all the hub's processes."""

    controllers_s: float
    cpu_s: float

    @classmethod
    def of(cls, hub: Hub) -> Family:
        controllers = process_of(hub.folder, "controllers")
        assert controllers is not None, hub.log()
        return cls(cpu_seconds([controllers]), cpu_seconds(family(hub)))


def family(hub: Hub) -> list[psutil.Process]:
    """Every process of the hub: the supervisor's children, and PostgreSQL, which may not be one of them."""
    top = psutil.Process(hub.pid)
    found = {process.pid: process for process in [top, *top.children(recursive=True)]}
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if any(str(hub.folder) in part for part in process.info["cmdline"] or []):
            for one in [process, *process.children(recursive=True)]:
                found[one.pid] = one
    return list(found.values())


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def pss_mib(process: psutil.Process) -> float:
    """The process's share of memory, pages shared with others counted in part."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found[1]) / 1024 if found else 0.0
