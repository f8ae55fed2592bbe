"""The audit log as a file: one event a line, written by a thread of its own, rotated by size.

Requests never wait for the disk. Several processes may write one file: a line is appended at once, a rotation holds a
lock, and a writer whose file was renamed or removed opens the path anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from api.audit.metrics import Outcome, SinkCounts
from fleet.values.files import append_private
from fleet.values.ports import Clock

BUFFER_BYTES = 32 * 1024 * 1024  # of lines that the disk has not taken
GATHER_S = 0.1  # the thread takes what has come in this time as one write: each waking costs the others a turn
BATCH_BYTES = 1 << 20
STOP_S = 5.0  # for the rest, at the end
MEGABYTE = 1 << 20
DAY_S = 86_400
STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Rotation:
    """0 means no bound, as in a kube-apiserver."""

    megabytes: int = 100
    backups: int = 100
    days: int = 366


class AuditFile:
    """A Sink. `path` "-": standard output. Raises OSError for a file that cannot be opened."""

    def __init__(
        self, path: str, rotation: Rotation, counts: SinkCounts, clock: Clock, *, buffer_bytes: int = BUFFER_BYTES
    ) -> None:
        self._path = None if path == STDOUT else Path(path)
        self._clock = clock
        self._rotation, self._counts, self._buffer_bytes = rotation, counts, buffer_bytes
        self._lines: list[bytes] = []
        self._bytes = 0
        self._lock, self._news = threading.Lock(), threading.Event()
        self._stopping = False
        self._descriptor = -1
        self._torn = False  # the file ends within a line
        if self._path is not None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()
        self._thread = threading.Thread(target=self._run, name="audit-file", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        with self._lock:
            fits = self._bytes + len(line) < self._buffer_bytes
            if fits:
                self._lines.append(line)
                self._bytes += len(line) + 1
        if not fits:
            self._counts.lost(Outcome.OVERFLOW, 1, self._clock.monotonic(), "the file takes events too slowly")
        elif not self._news.is_set():
            self._news.set()

    def stop(self) -> None:
        """Write what has come so far, within a bounded time. Safe to call twice."""
        self._stopping = True
        self._news.set()
        self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._close()

    # -- the thread

    def _run(self) -> None:
        while True:
            self._news.wait()
            if not self._stopping:
                time.sleep(GATHER_S)
            self._news.clear()
            with self._lock:
                lines, self._lines = self._lines, []
            for batch in _batches(lines):
                self._write(batch)
                with self._lock:
                    self._bytes -= sum(map(len, batch)) + len(batch)
            if self._stopping and not self._lines:
                return

    def _write(self, lines: list[bytes]) -> None:
        try:
            self._reopen_if_moved()
            if self._torn:
                self._append(b"\n")
                self._torn = False
            self._rotate_if_full(sum(map(len, lines)) + len(lines))
            self._append(b"\n".join([*lines, b""]))
            self._counts.written(len(lines))
        except OSError as error:
            why = error.strerror or str(error)
            self._counts.lost(Outcome.UNWRITABLE, len(lines), self._clock.monotonic(), why)
            self._close()

    def _append(self, data: bytes) -> None:
        """Write all of it. An error may leave the file with half a line at its end: the next opening looks."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    # -- the file

    def _open(self) -> None:
        if self._path is None:
            self._descriptor = os.dup(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
            return
        with append_private(self._path) as opened:
            self._descriptor = os.dup(opened.fileno())
        self._torn = self._ends_within_a_line(self._path)

    @staticmethod
    def _ends_within_a_line(path: Path) -> bool:
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _close(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1

    def _reopen_if_moved(self) -> None:
        if self._descriptor >= 0 and self._path is not None:
            try:
                same = os.path.samestat(os.fstat(self._descriptor), self._path.stat())
            except FileNotFoundError:
                same = False
            if same:
                return
            self._close()
        if self._descriptor < 0:
            self._open()

    def _rotate_if_full(self, more: int) -> None:
        bound = self._rotation.megabytes * MEGABYTE
        size = os.fstat(self._descriptor).st_size if bound and self._path is not None else 0
        if not size or size + more <= bound or self._path is None:
            return
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # ends when the descriptor is closed
        if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):  # else another process was first
            self._path.rename(self._backup(self._path))
            self._clean(self._path)
        self._close()
        self._open()

    def _backup(self, path: Path) -> Path:
        """A free name with the time in it, as a kube-apiserver gives them."""
        at = datetime.fromtimestamp(self._clock.now(), UTC)
        while True:
            backup = path.with_name(f"{path.stem}-{at:%Y-%m-%dT%H-%M-%S.%f}{path.suffix}")
            if not backup.exists():
                return backup
            at += timedelta(microseconds=1)

    def _clean(self, path: Path) -> None:
        """Remove the backups that are too many or too old."""
        backups = sorted(path.parent.glob(f"{_literal(path.stem)}-????-??-??T??-??-??.*{_literal(path.suffix)}"))
        gone = backups[: -self._rotation.backups] if self._rotation.backups else []
        if self._rotation.days:
            oldest = self._clock.now() - self._rotation.days * DAY_S
            gone += [backup for backup in backups if backup not in gone and _modified(backup) < oldest]
        for backup in gone:
            backup.unlink(missing_ok=True)


def _literal(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _batches(lines: list[bytes]) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    size = BATCH_BYTES
    for line in lines:
        if size >= BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(line)
        size += len(line) + 1
    return batches
