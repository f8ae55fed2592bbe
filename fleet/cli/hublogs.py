"""`fleet logs --hub`: what the hub's own processes log, from the files of the data directory, merged by time.

A line of the files is a JSON object (logs.py). Other lines, such as the last words of a program that could not start,
count for the time of the line before them.
"""

from __future__ import annotations

import heapq
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure
from fleet.cli.logfile import older
from fleet.values.times import seconds

POLL_S = 0.25
PIECE_BYTES = 1 << 20  # read at once of a file that is followed
LINE_BYTES_MAX = 1 << 20  # a line without an end is cut here
_FIRST = ("timestamp", "level", "event")  # and the rest behind them
_LAST = ("exception", "stack")


@dataclass(frozen=True, slots=True)
class HubLogLine:
    """`at`: epoch seconds; `fields`: what the line holds."""

    at: float
    process: str
    fields: Mapping[str, Any]

    def text(self) -> str:
        """For people: time, process, level, the event, and its values."""
        said = self.fields
        values = [f"{key}={_value(value)}" for key, value in said.items() if key not in (*_FIRST, *_LAST)]
        time_of, level = str(said.get("timestamp", ""))[:23].ljust(23), str(said.get("level", ""))
        head = f"{time_of} {self.process:<11} {level:<7} {said.get('event', '')}"
        return "\n".join([" ".join([head, *values]), *(str(said[key]) for key in _LAST if said.get(key))])


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Which lines. `job`: a name or a uid; `namespace`: of that job; `request`: the id that an answer had in its header
    Audit-ID; `since`: epoch seconds."""

    job: str = ""
    namespace: str = ""
    request: str = ""
    since: float = float("-inf")

    def holds(self, line: HubLogLine) -> bool:
        fields = line.fields
        if line.at < self.since or (self.request and fields.get("request") != self.request):
            return False
        if not self.job:
            return True
        if fields.get("uid") == self.job:
            return True
        return fields.get("name") == self.job and (not self.namespace or fields.get("namespace") == self.namespace)


def show(data: DataDir, selection: LineFilter, follow: bool) -> Iterator[str]:
    """The lines, oldest first; with `follow` those to come too, without end. Raises Failure."""
    files = {path.stem: _FollowedFile(path) for path in _files(data)}
    if not files:
        raise Failure(f"{data.logs} has no logs: the hub of this data directory has not run here")
    found = heapq.merge(*(one.past() for one in files.values()), key=lambda line: line.at)
    yield from (line.text() for line in found if selection.holds(line))
    while follow:
        for path in _files(data):
            files.setdefault(path.stem, _FollowedFile(path))
        new = sorted((line for one in files.values() for line in one.more()), key=lambda line: line.at)
        yield from (line.text() for line in new if selection.holds(line))
        if not new:
            time.sleep(POLL_S)


def _files(data: DataDir) -> list[Path]:
    try:
        return sorted(data.logs.glob("*.log"))
    except OSError as error:
        raise Failure(f"cannot read {data.logs}: {error.strerror or error}") from error


@dataclass
class _FollowedFile:
    """The file of one process, which it may rename and begin anew."""

    path: Path
    at: float = float("-inf")  # of the last line
    _file: BinaryIO | None = None
    _rest: bytes = b""

    def past(self) -> Iterator[HubLogLine]:
        """All that there is, of the older file first."""
        try:
            before: BinaryIO | None = older(self.path).open("rb")
        except OSError:
            before = None
        self._open()  # before the older one is read: what is renamed meanwhile is this one
        if before is not None:
            with before:
                for raw in before:
                    yield self._line(raw)
        yield from self.more(whole=True)

    def more(self, whole: bool = False) -> Iterator[HubLogLine]:
        """What has come since; `whole`: to the end of the file, else at most PIECE_BYTES."""
        if self._file is None and not self._open():
            return
        assert self._file is not None
        while True:
            piece = self._file.read(PIECE_BYTES)
            *lines, self._rest = (self._rest + piece).split(b"\n")
            if len(self._rest) > LINE_BYTES_MAX:
                lines, self._rest = [*lines, self._rest], b""
            yield from map(self._line, lines)
            if not piece or not whole:
                break
        if not piece and self._moved():
            self._file.close()
            self._file = None

    def _moved(self) -> bool:
        """Whether another file has the name now, and this one is read to its end."""
        assert self._file is not None
        mine = os.fstat(self._file.fileno())
        try:
            there = self.path.stat()
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino) and self._file.tell() >= mine.st_size

    def _open(self) -> bool:
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Failure(f"cannot read {self.path}: {error.strerror or error}") from error
        return True

    def _line(self, raw: bytes) -> HubLogLine:
        try:
            fields = json.loads(raw)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            fields = {"event": raw.decode(errors="replace").rstrip()}
        at = seconds(str(fields.get("timestamp", "")))
        self.at = max(self.at, at) if at is not None else self.at  # a merge needs order
        return HubLogLine(self.at, self.path.stem, fields)


def _value(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() and " " not in value else json.dumps(value)


def print_all(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
