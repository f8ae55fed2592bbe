"""`fleet replay` as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.hub import fleet, refusal

TRACE = "submit_s,vc,job_id,num_gpu,duration_s\n" + "".join(
    f"{number * 60},{'ab'[number % 2]},job-{number},{(1, 8, 4, 16)[number % 4]},{300 + number}\n"
    for number in range(24)
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{number},96000,393216,8,G2\n" for number in range(6))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "nodes.csv").write_text(NODES)
    return (str(tmp_path / "trace.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--members", "2", "--jitter", "1m")


def test_policies_are_compared_over_seeds_and_the_same_command_says_the_same(files: tuple[str, ...]) -> None:
    command = ("replay", *files, "--policy", "fleet", "--policy", "fifo", "--load", "3", "--seeds", "2", "--json")
    first, second = (json.loads(fleet(*command).stdout) for _ in range(2))
    assert first["apiVersion"] == "fleet.replay/v1"
    assert first["world"]["jobs"] == 24 and first["world"]["gpus"] == 48 and first["world"]["seeds"] == [0, 1]
    assert set(first["summary"]) == {"fleet", "fifo"}
    assert first["differences"]["fleet - fifo"]["wait_s.mean"]["mean"] < 0
    for document in (first, second):
        for run in (run for runs in document["runs"].values() for run in runs):
            assert run["ended"] == 24 and run["stopped"] == "DONE"
            assert run.pop("timing")["decision_s"]["n"] == run["decisions"]
    assert first == second


def test_the_table_names_every_figure_and_the_files_are_there(files: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fleet("replay", *files, "--policy", "race", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the progress bar is for terminals"
    lines = done.stdout.splitlines()
    assert lines[0] == "24 jobs, 6 nodes with 48 GPUs in 2 members, load 1, seed 0"
    assert lines[1].split() == ["FIGURE", "RACE"]
    [timing] = [line for line in lines if line.startswith("race: ")]
    assert re.fullmatch(r"race: \d+ decisions, [0-9.]+ ms on average, [0-9.]+ ms at most", timing)
    assert {path.name for path in out.iterdir()} == {
        "wait-cdf.png",
        "allocated.png",
        "queue.png",
        "unmet.png",
        "replay.json",
    }
    assert json.loads((out / "replay.json").read_text())["runs"]["race"][0]["ended"] == 24


def test_the_table_of_one_job_and_one_member_speaks_of_one(files: tuple[str, ...]) -> None:
    done = fleet("replay", *files, "--members", "1", "--limit", "1", "--policy", "fifo")
    lines = done.stdout.splitlines()
    assert lines[0] == "1 job, 6 nodes with 48 GPUs in 1 member, load 1, seed 0"
    assert lines[-1].startswith("fifo: 1 decision, ")


def test_the_load_is_calibrated_by_fifo_s_mean_wait(files: tuple[str, ...]) -> None:
    done = fleet("replay", *files, "--policy", "fifo", "--calibrate-wait", "5m", "--jitter", "0", "--json")
    document = json.loads(done.stdout)
    assert document["summary"]["fifo"]["wait_s.mean"]["mean"] == pytest.approx(300, rel=0.25)
    assert document["world"]["load"] > 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--policy", "best"), "--policy: 'best' is none of fleet, fifo, fifo-backfill, race"),
        (("--calibrate-wait", "soon"), "--calibrate-wait: 'soon' is not a time such as 30s, 10m, 4h or 1.5d"),
        (("--min", "a"), "--min: 'a' is not LEAF=NUMBER"),
        (("--min", "a=5", "--max", "a=2"), "a is promised 5 GPUs and may use 2 at most"),
        (("--full", "--policy", "race"), "the real controllers decide as fleet only, which is not among the policies"),
        (("--max", "c=8"), "c is not a queue of the trace (they are a, b)"),
        (("--from", "90d"), "trace.csv: no job was submitted in the time that is looked at"),
        (("--nodes", "none.csv"), "none.csv: cannot be read (No such file or directory)"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_it(
    files: tuple[str, ...], options: tuple[str, ...], complaint: str
) -> None:
    done = fleet("replay", *files, *options)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("fleet: ") and done.stderr.endswith(f"{complaint}\n")
    assert done.stderr.count("\n") == 1


def test_a_job_that_no_node_could_hold_is_refused(files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES.replace(",8,G2", ",4,G2"))
    done = fleet("replay", *files)
    assert done.stderr.endswith("no node is large enough for a pod of job-1 (8 nvidia.com/gpu)\n")


def test_a_gang_that_no_member_could_hold_is_refused(files: tuple[str, ...], tmp_path: Path) -> None:
    """With strict order it would stop everybody for ever, and waits of the others would look like short ones."""
    trace = tmp_path / "wide.csv"
    trace.write_text(TRACE + "2000,a,wide,48,10\n")
    done = fleet("replay", str(trace), *files[1:])
    assert refusal(done) == "fleet: no member is large enough for wide (48 GPUs) with seed 0: use fewer --members"


def test_who_never_starts_is_named_and_nothing_breaks_where_nobody_does(files: tuple[str, ...], tmp_path: Path) -> None:
    done = fleet("replay", *files, "--max", "a=0", "--max", "b=0", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "fleet: 24 of 24 jobs never started, and are in no figure (STUCK)" in done.stdout.splitlines()
