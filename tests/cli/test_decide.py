"""`fleet decide`: of a file, of a record, and into what cannot be written to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fleet.cli.failure import Failure
from fleet.cli.main import app
from fleet.core.decide import decide
from fleet.core.notation.codec import decode_snapshot, encode_record
from tests.cli.snapshots import CASE, written


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["decide", *words])


@pytest.fixture
def record() -> dict[str, Any]:
    world = decode_snapshot(CASE)
    made = encode_record(world, decide(world, now=1000.0, seed=0, solver=None), now=1000.0, seed=0)
    document: dict[str, Any] = json.loads(json.dumps(made))
    return document


def test_a_record_that_comes_out_as_it_was_says_so(tmp_path: Path, record: dict[str, Any]) -> None:
    done = run(written(tmp_path / "record.json", record))
    assert done.exit_code == 0 and "the recorded plan is reproduced" in done.output


def test_jobs_that_wait_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    # The ids of a hub's jobs are uids.
    held = {"leaf": "root/a", "gang": "1x8", "held": True}
    units = [{"id": "1", "name": "v/b", **held}, {"id": "2", "name": "v/a", **held}]
    done = run(written(tmp_path / "case.json", CASE | {"units": units}))
    assert [line.split()[0] for line in done.output.splitlines()[1:3]] == ["v/a", "v/b"]


@pytest.mark.parametrize("part", ["evictions", "claims", "reasons"])
def test_a_record_that_comes_out_otherwise_says_in_what_and_fails(
    tmp_path: Path, record: dict[str, Any], part: str
) -> None:
    record["plan"][part] = {} if part == "reasons" else []
    done = run(written(tmp_path / "record.json", record))
    assert isinstance(done.exception, Failure)  # which ends with status 1
    assert str(done.exception) == f"the recorded plan is NOT reproduced: {part} differ"


@pytest.mark.parametrize("words", [("--now", "5"), ("--seed", "5"), ("--no-solver",)])
def test_what_a_record_says_itself_cannot_be_said_beside_it(
    tmp_path: Path, record: dict[str, Any], words: tuple[str, ...]
) -> None:
    done = run(written(tmp_path / "record.json", record), *words)
    assert done.exit_code == 2 and words[0] in done.output


@pytest.mark.parametrize("now", ["inf", "-inf", "nan", "1e300"])
@pytest.mark.parametrize("more", [(), ("--explain", "b")])
def test_a_moment_that_no_clock_shows_is_refused(tmp_path: Path, now: str, more: tuple[str, ...]) -> None:
    done = run(written(tmp_path / "case.json", CASE), "--now", now, *more)
    assert done.exit_code == 2 and "--now" in done.output


def test_of_jobs_with_one_name_the_ids_are_told(tmp_path: Path) -> None:
    same = [{"id": name, "name": "team/job", "gang": "9x8"} for name in ("one", "two")]
    done = run(written(tmp_path / "case.json", {**CASE, "units": same}), "--explain", "job")
    assert str(done.exception) == '"job" names several jobs: the id one, the id two'
    assert "Position:" in run(str(tmp_path / "case.json"), "--explain", "two").output


@pytest.mark.parametrize("words", [("decide", "FILE"), ("decide", "FILE", "-o", "json"), ("decide", "--schema")])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(tmp_path: Path, words: tuple[str, ...], unbuffered: str) -> None:
    case = written(tmp_path / "case.json", CASE)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fleet.cli.main", *(case if word == "FILE" else word for word in words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=180,
            check=False,
            env={"PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, "fleet: cannot write: No space left on device\n")
