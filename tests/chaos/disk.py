"""The disk of an embedded database, and how to fill it.

As root the database stands on a small file system of its own that a ballast file fills. For any other user, the
database's processes may write no file beyond its present size, which PostgreSQL meets in the same places.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from tests.chaos.parts import process_of

MIB = 1 << 20


class Disk:
    """Where the database's files are. `fill` leaves no room, `free` gives it back."""

    def __init__(self, data: Path, mib: int = 192) -> None:
        self._data, self._mib = data, mib
        self._place = data / "postgres"
        self._ballast = self._place / "ballast"
        self.mounted = False

    def mount(self) -> None:
        self._place.mkdir(parents=True)
        if os.geteuid() != 0:
            return
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._mib}m,mode=0700", "tmpfs", str(self._place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.mounted = done.returncode == 0  # in a container root may not

    def unmount(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self._place)], check=True)

    def fill(self) -> None:
        if not self.mounted:
            self._limit(str(17 * MIB))  # files of the write-ahead log have 16, and go on
            return
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(b"\0" * (64 * 1024))

    def free(self) -> None:
        if self.mounted:
            self._ballast.unlink()
        else:
            self._limit("unlimited")

    def _limit(self, size: str) -> None:
        postmaster = process_of(self._data, "postgres")
        assert postmaster is not None
        owner = postmaster.uids().real, postmaster.gids().real
        # Only its own user may do this: root in a container lacks the capability.
        prefix = (
            [] if os.geteuid() else ["setpriv", f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups", "--"]
        )
        for process in (postmaster, *postmaster.children()):
            command = [*prefix, "prlimit", f"--pid={process.pid}", f"--fsize={size}:unlimited"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0 or not _lives(process), done.stderr


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running()
    return False
