"""The file that a process of a hub logs to: DATA-DIR/logs/NAME.log, bounded, with one older file beside it.

Several processes may write one file. The one that finds it too large renames it to NAME.log.1 and begins a new one,
and the others notice. A disk that is full costs lines and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO, TextIO

from fleet.values.files import append_private

BYTES_MAX = 16 * 1024 * 1024  # of one file; there are two at most
LOOK_BYTES = 64 * 1024  # written between two looks at the file


class LogFile:
    """Takes text as a stream does. `also`: a stream that gets the same. `own`: this process's stdout and stderr are the
    file, and stay so when a new one begins."""

    def __init__(self, path: Path, also: TextIO | None = None, *, own: bool = False) -> None:
        """Raises OSError."""
        self._path, self._also, self._own = path, also, own
        self._lock = threading.Lock()
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file: BinaryIO = append_private(path)
        self._unseen = LOOK_BYTES  # so that the first line looks

    def write(self, text: str) -> int:
        data = text.encode(errors="replace")
        with self._lock, contextlib.suppress(OSError):
            self._unseen += len(data)
            if self._unseen >= LOOK_BYTES:
                self._unseen = 0
                self._look()
            self._file.write(data)
            self._file.flush()
        if self._also is not None:
            self._also.write(text)
        return len(text)

    def flush(self) -> None:
        if self._also is not None:
            self._also.flush()

    def _look(self) -> None:
        """Begin a new file where this one is too large, or where another process has begun one."""
        own = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
            moved = (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)
        except FileNotFoundError:
            moved = True
        if not moved and own.st_size < BYTES_MAX:
            return
        if not moved:
            self._path.replace(older(self._path))
        new = append_private(self._path)
        self._file, old = new, self._file
        old.close()
        if self._own:
            for stream in (sys.__stdout__, sys.__stderr__):
                if stream is not None:
                    os.dup2(new.fileno(), stream.fileno())


def older(path: Path) -> Path:
    """The file before this one."""
    return path.with_name(path.name + ".1")
