"""The file of the audit log: whole lines, rotation, and a disk that is full, slow or taken away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from api.audit.file import AuditFile, Rotation
from api.audit.metrics import AuditMetrics
from fleet.simulate.wall import WallClock

LINE = b'{"number":%d}'


class Opened:
    """A file that is being written, with its counts."""

    def __init__(self, path: str, rotation: Rotation | None = None, buffer_bytes: int = 1 << 20) -> None:
        self.metrics = AuditMetrics()
        self.file = AuditFile(
            path, rotation or Rotation(), self.metrics.of("log"), WallClock(), buffer_bytes=buffer_bytes
        )

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self.file.put(LINE % number)

    def count(self, outcome: str) -> int:
        wanted = f'fleet_api_audit_events_total{{outcome="{outcome}",to="log"}} '
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return int(next(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)))

    # `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
    def until(self, holds: Callable[..., bool]) -> None:
        deadline = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "audit.log"


@pytest.fixture
def opened(path: Path) -> Iterator[Opened]:
    found = Opened(str(path))
    yield found
    found.file.stop()


def numbers(*files: Path) -> list[int]:
    return [int(line[10:-1]) for file in files for line in file.read_bytes().splitlines()]


def test_each_event_is_a_line_that_only_the_owner_reads(opened: Opened, path: Path) -> None:
    opened.put(*range(500))
    opened.file.stop()
    assert numbers(path) == list(range(500))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert opened.count("Written") == 500


def test_a_file_that_is_moved_or_removed_is_made_again(opened: Opened, path: Path) -> None:
    opened.put(1)
    opened.until(lambda: opened.count("Written") == 1)
    path.rename(path.with_suffix(".1"))
    opened.put(2)
    opened.until(lambda: opened.count("Written") == 2)
    path.unlink()
    opened.put(3)
    opened.until(lambda: opened.count("Written") == 3)
    assert numbers(path.with_suffix(".1"), path) == [1, 3]


def test_lines_go_on_after_one_that_was_torn(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"number":0}\n{"numb')
    opened = Opened(str(path))
    opened.put(1)
    opened.file.stop()
    assert path.read_bytes() == b'{"number":0}\n{"numb\n{"number":1}\n'


def test_a_process_that_is_killed_leaves_whole_lines(path: Path) -> None:
    program = (
        "import sys; from api.audit.file import *; from api.audit.metrics import *;"
        "from fleet.simulate.wall import WallClock;"
        "file = AuditFile(sys.argv[1], Rotation(), AuditMetrics().of('log'), WallClock());"
        "[file.put(b'{.number.:%d}' % n) for n in iter(range(10**9))]"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not path.exists() or path.stat().st_size < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    assert len({int(line[10:-1]) for line in whole.splitlines()}) == len(whole.splitlines())


def test_a_full_file_is_rotated_and_old_ones_go(path: Path) -> None:
    opened = Opened(str(path), Rotation(megabytes=1, backups=2, days=1), buffer_bytes=1 << 24)
    other = path.parent / "audit-of-others.log"
    other.write_bytes(b"")
    for _ in range(5):
        before = opened.count("Written")
        for _ in range(9):
            opened.file.put(b"x" * 100_000)
        opened.until(lambda before=before: opened.count("Written") == before + 9)
    backups = sorted(path.parent.glob("audit-2*.log"))
    assert len(backups) == 2 and other.exists()
    assert all(file.stat().st_size <= 1 << 20 for file in (path, *backups))
    os.utime(backups[0], (0, 0))
    for _ in range(9):
        opened.file.put(b"x" * 100_000)
    opened.file.stop()
    assert not backups[0].exists()


def test_two_writers_of_one_file_rotate_it_once(path: Path) -> None:
    writers = [Opened(str(path), Rotation(megabytes=1, backups=0), buffer_bytes=1 << 24) for _ in range(2)]
    for number in range(30):
        writers[number % 2].file.put(b"%02d" % number + b"x" * 100_000)
        time.sleep(0.005)
    for writer in writers:
        writer.file.stop()
    # A writer that opens the file while the other one writes begins with an end of line, so a line may be empty.
    lines = [line for file in path.parent.iterdir() for line in file.read_bytes().splitlines() if line]
    assert sorted(int(line[:2]) for line in lines) == list(range(30))
    assert all(len(line) == 100_002 for line in lines)


def test_a_full_disk_loses_events_that_are_counted_and_said() -> None:
    with capture_logs() as said:
        opened = Opened("/dev/full")
        opened.put(1, 2, 3)
        opened.until(lambda: opened.count("Unwritable") == 3)
        opened.put(4)
        opened.until(lambda: opened.count("Unwritable") == 4)
        opened.file.stop()
    assert [(entry["outcome"], entry["why"]) for entry in said] == [("Unwritable", "No space left on device")]
    assert opened.count("Written") == 0


def test_a_folder_that_is_gone_loses_events_until_it_is_back(opened: Opened, path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    opened.put(1)
    opened.until(lambda: opened.count("Unwritable") == 1)
    path.parent.mkdir()
    opened.put(2)
    opened.until(lambda: opened.count("Written") == 1)
    assert numbers(path) == [2]


def test_a_slow_disk_delays_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, write = threading.Event(), os.write

    def slow(descriptor: int, data: bytes) -> int:
        goes_on.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr("api.audit.file.os.write", slow)
    opened = Opened(str(path), buffer_bytes=1000)
    opened.put(*range(1000))  # returns while nothing is written
    lost = opened.count("Overflow")
    assert 0 < lost < 1000
    goes_on.set()
    opened.file.stop()
    assert opened.count("Written") == len(numbers(path)) == 1000 - lost


def test_a_file_that_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory"):
        Opened(str(tmp_path))


def test_standard_output_takes_the_same_lines(capfd: pytest.CaptureFixture[str]) -> None:
    opened = Opened("-")
    opened.put(1, 2)
    opened.file.stop()
    assert capfd.readouterr().out == '{"number":1}\n{"number":2}\n'
