"""The postmaster of a PostgreSQL data directory, by its file `postmaster.pid`: whether it lives, and its process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import psutil

from api.store import watchdog
from fleet.values.untyped import digits


def _pid_lines(data: Path) -> Sequence[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return ()


def running(data: Path) -> int | None:
    """Return the pid of the live postmaster of a data directory, None without one."""
    lines = _pid_lines(data)
    pid = digits(lines[0].strip()) if lines else None
    return pid if pid is not None and _is_server(pid, data) else None


def process_of(pid: int) -> psutil.Process | None:
    """Return the process, None where it has ended."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def lives(process: psutil.Process) -> bool:
    """Return whether the process still runs: a process that only waits for its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_server(pid: int, data: Path) -> bool:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        command = process.cmdline()
        if str(watchdog.FILE) in command:
            return False  # of some other server, in a place where process ids come back soon
        return str(data) in command or Path(process.cwd()) == data.resolve()
    except (psutil.Error, OSError):
        return False


def drop_stale_pid(data: Path) -> None:
    """Remove postmaster.pid if its number now belongs to some other program; PostgreSQL judges a dead one by itself."""
    lines = _pid_lines(data)
    pid = digits(lines[0].strip()) if lines else None
    if pid is not None and psutil.pid_exists(pid):
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        (data / "postmaster.pid").unlink(missing_ok=True)
