"""The log files of a hub are bounded, and `fleet logs --hub` reads both of them in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.cli import logfile
from fleet.cli.datadir import DataDir
from fleet.cli.hublogs import LineFilter, show
from fleet.cli.logfile import LogFile, older


def line(second: int, **said: str) -> str:
    return json.dumps({"event": f"event {second}", "timestamp": f"2026-01-01T00:00:{second:02}.5Z", **said}) + "\n"


def test_a_large_file_is_renamed_and_begun_anew_by_whoever_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "BYTES_MAX", 1000)
    monkeypatch.setattr(logfile, "LOOK_BYTES", 1)
    path = tmp_path / "api.log"
    one, other = LogFile(path), LogFile(path)
    for _ in range(50):
        one.write("x" * 99 + "\n")
        other.write("y" * 99 + "\n")
    assert path.stat().st_size <= 1200 and older(path).stat().st_size <= 1200
    assert sorted(found.name for found in tmp_path.iterdir()) == ["api.log", "api.log.1"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_all_processes_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.logs.mkdir()
    (data.logs / "api.log.1").write_text(line(1))
    (data.logs / "api.log").write_text(line(4) + "no JSON\n" + line(6, name="train", namespace="team-a"))
    (data.logs / "controllers.log").write_text(line(2) + line(5, name="train", namespace="team-b"))

    said = list(show(data, LineFilter(), follow=False))

    assert [text.split()[-1] for text in said[:4]] == ["1", "2", "4", "JSON"]
    assert len(said) == 6
    assert len(list(show(data, LineFilter(job="train", namespace="team-b"), follow=False))) == 1
    assert len(list(show(data, LineFilter(job="train"), follow=False))) == 2


def test_a_file_that_is_renamed_is_followed_into_the_next(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.logs.mkdir()
    path = data.logs / "api.log"
    path.write_text(line(1))
    lines = show(data, LineFilter(), follow=True)
    assert "event 1" in next(lines)
    with path.open("a") as file:
        file.write(line(2))
    path.rename(older(path))
    path.write_text(line(3))
    assert ["event 2" in next(lines), "event 3" in next(lines)] == [True, True]
