"""The processes of a running hub, by the part that they play, and how to hit them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.testbed.processes import wait_for

PARTS = ("controllers", "api", "sim")


def process_of(data: Path, part: str) -> psutil.Process | None:
    """The process of a hub's part; `part` is one of PARTS, "up" (the supervisor) or "postgres" (the postmaster)."""
    if part == "postgres":
        return _postmaster(data)
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if part in command[1:5] and str(data) in command and "postgres" not in command[0]:
            return process
    return None


def hit(data: Path, part: str, number: int = signal.SIGKILL) -> int:
    """Signal the part; returns the pid that was hit. A part that is being started again is waited for."""
    process = wait_for(f"{part} runs", lambda: process_of(data, part))
    os.kill(process.pid, number)
    return process.pid


def all_of(data: Path) -> list[psutil.Process]:
    """Every process of the hub, the postmaster's children, the decider and the solver included."""
    found: dict[int, psutil.Process] = {}
    for part in ("up", *PARTS, "postgres"):
        process = process_of(data, part)
        if process is not None:
            found[process.pid] = process
            with suppress(psutil.NoSuchProcess):
                found.update((child.pid, child) for child in process.children(recursive=True))
    return list(found.values())


def wait_gone(processes: list[psutil.Process], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while alive := [p for p in processes if _lives(p)]:
        assert time.monotonic() < end, f"still there: {alive}"
        time.sleep(0.05)


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _postmaster(data: Path) -> psutil.Process | None:
    try:
        pid = int((data / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
        process = psutil.Process(pid)
        return process if process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
