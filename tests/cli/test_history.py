"""`fleet history`, `fleet show` and `fleet report` of a real hub, over a past that is written by hand."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest

from api.store.embedded import EmbeddedPostgres
from fleet.cli.report import ReportOutput, _print
from tests.accounts.past import START, at, past_in
from tests.cli.hub import Up
from tests.cli.runner import Told

SPACE = "past"
NOVEMBER = ("--from", "2026-11-01", "--to", "2026-11-30", "-n", SPACE)


async def _fill(folder: Path) -> None:
    """Write the past into the database of a hub that runs."""
    postgres = EmbeddedPostgres(folder)
    async with past_in(await postgres.start()) as past:
        ran = [
            {"started": 1, "ended": 2, "outcome": "Evicted", "why": "Reclaimed"},
            {"started": 3, "ended": 5.5, "model": "A100", "member": "west"},
        ]
        await past.job(
            "train",
            attempts=ran,
            waits={"QuotaExhausted": 0.75, "NoMemberFits": 0.25},
            evictions=1,
            lost_gpu_s=8 * 3600.0,
            ended=at(5.5),
            namespace=SPACE,
        )
        plain = [{"started": 1, "ended": 2, "model": "", "gpus": 2}]
        await past.job("plain", attempts=plain, waits={"Undecided": 0.0001}, gpus=2, pods=1, namespace="plain")
        await past.job("waits", 1, state="Queued", user="bob", queue="root/nlp", namespace=SPACE)
        await past.job("same", 2, state="Deleted", why="Deleted", ended=at(3), user="bob", namespace=SPACE)
        await past.job("same", 2, state="Failed", kind="TFJob", user="bob", namespace=SPACE, ended=at(3))
    await postgres.stop()


@pytest.fixture(scope="module")
def told(up: Up) -> Told:
    """Asks a hub whose past is filled."""
    asyncio.run(_fill(up.folder / "postgres"))
    return Told(up.folder)


def test_the_history_lists_jobs_that_are_gone(told: Told) -> None:
    done = told("history", "-n", SPACE, "--state", "succeeded")
    head, row = done.stdout.splitlines()
    assert head.split()[:5] == ["NAME", "KIND", "STATE", "SUBMITTED", "WAITED"]
    assert row.split() == [
        "train",
        "PyTorchJob",
        "Succeeded",
        "2026-11-02T00:00:00Z",
        "60m",
        "3h30m",
        "8",
        "28.0",
        "east,",
        "west",
    ]
    names = told("history", "-n", SPACE, "--user", "bob", "-o", "name", "--sort", "-name").stdout.split()
    assert names[0] == "pytorchjob/waits" and sorted(names[1:]) == ["pytorchjob/same", "tfjob/same"]
    cut = told("history", "-n", SPACE, "--limit", "1")
    assert len(cut.stdout.splitlines()) == 2 and "there are more than these 1 (--limit)" in cut.stderr
    wide = told("history", "-n", SPACE, "--name", "train", "-o", "wide").stdout
    assert "8 × A100" in wide and "root/vision" in wide
    assert json.loads(told("history", "-n", SPACE, "--queue", "root/nlp", "-o", "json").stdout)[0]["started"] is None
    assert "No such jobs in the history" in told("history", "-n", SPACE, "--user", "nobody").stderr


def test_the_life_of_a_job_is_a_timeline(told: Told) -> None:
    lines = told("show", "train", "-n", SPACE).stdout.splitlines()
    assert lines[0] == "PyTorchJob past/train: Succeeded"
    assert "GPU-hours:  28.0, of which 8.0 are lost" in lines
    assert lines[lines.index("Waited:     60m before its first start") :][:3] == [
        "Waited:     60m before its first start",
        "  45m       QuotaExhausted",
        "  15m       NoMemberFits",
    ]
    assert [line.split(None, 3)[3] if "+" in line else line.split(None, 2)[2] for line in lines[-8:]] == [
        "submitted",
        "attempt 1: placed in east",
        "attempt 1: runs on 8 × H100",
        "attempt 1: Evicted (Reclaimed), 8.0 GPU-hours",
        "attempt 2: placed in west",
        "attempt 2: runs on 8 × A100",
        "attempt 2: Succeeded, 20.0 GPU-hours",
        "Succeeded",
    ]
    whole = json.loads(told("show", "pytorchjob/train", "-n", SPACE, "-o", "json").stdout)
    assert whole["job"] is None and whole["history"]["user"] == "alice"
    assert told("show", whole["history"]["uid"]).stdout.splitlines() == lines


def test_gpus_of_no_known_model_are_counted_without_one(told: Told) -> None:
    shown = told("show", "plain", "-n", "plain").stdout
    assert "2 GPUs in 1 pod" in shown and "attempt 1: runs on 2 GPUs\n" in shown and "Undecided" not in shown


def test_a_job_that_cannot_be_shown_is_answered_in_a_line(told: Told) -> None:
    assert "did you mean train?" in told.refused("show", "trian", "-n", SPACE)
    assert '"same" names several jobs: PyTorchJob/same, TFJob/same' in told.refused("show", "same", "-n", SPACE)
    assert told("show", "tfjob/same", "-n", SPACE).stdout.startswith("TFJob past/same: Failed")


def test_a_job_that_lives_has_its_present_reason_beside_its_past(up: Up, told: Told) -> None:
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "now", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    up.hub.request("POST", "/apis/batch/v1/namespaces/default/jobs", body)
    done = told("show", "now")
    assert done.exit_code == 0 and done.stdout.startswith("Job default/now: Unclaimed"), done.stderr


def test_reports_are_tables_csv_json_and_pictures(told: Told, tmp_path: Path) -> None:
    lines = told("report", "usage", "--by", "member", *NOVEMBER).stdout.splitlines()
    assert lines[0] == "2026-11-01T00:00:00Z to 2026-12-01T00:00:00Z"
    assert [line.split() for line in lines[1:]] == [
        ["MEMBER", "GPU", "HOURS", "A100", "H100"],
        ["west", "20.0", "20.0", "0.0"],
        ["east", "8.0", "0.0", "8.0"],
        ["total", "28.0", "20.0", "8.0"],
    ]
    rows = list(csv.DictReader(io.StringIO(told("report", "waits", "-o", "csv", *NOVEMBER).stdout)))
    assert [(row["user"], row["submitted"], row["meanS"]) for row in rows] == [
        ("alice", "1", "3600.0"),
        ("bob", "3", ""),
    ]
    assert float(rows[0]["hours:QuotaExhausted"]) == 0.75
    found = json.loads(told("report", "efficiency", "-o", "json", *NOVEMBER).stdout)
    assert found["total"]["efficiency"] == pytest.approx(20 / 28)
    for report in ("usage", "waits", "efficiency"):
        picture = tmp_path / f"{report}.png"
        assert told("report", report, "-o", "png", "--file", str(picture), *NOVEMBER).exit_code == 0
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_report_that_makes_no_sense_is_refused_in_a_line(told: Told, tmp_path: Path) -> None:
    assert "--from 2026-11: is not before the end" in told.refused(
        "report", "usage", "--from", "2026-11", "--to", "2026-10"
    )
    wrong = told("report", "usage", "--by", "team")
    assert wrong.exit_code == 2 and "'--by'" in wrong.stderr and "'namespace'" in wrong.stderr
    file = tmp_path / "none" / "usage.csv"
    assert f"--file {file}: " in told.refused("report", "usage", "-o", "csv", "--file", str(file))


def test_a_user_is_forgotten_once_somebody_says_yes(told: Told) -> None:
    assert told("history", "forget", "--user", "bob").exit_code == 1
    assert told("history", "forget", "--user", "bob", "--yes").stdout == '"bob" is taken out of 3 records\n'
    assert told("history", "forget", "--user", "bob", "--yes").stdout == 'no record names "bob"\n'


def test_an_empty_report_says_since_when_the_hub_records(capsys: pytest.CaptureFixture[str]) -> None:
    for since, says in (
        (START.isoformat(), "Nothing in this period; recorded since 2026-11-02"),
        (None, "nothing is recorded yet"),
    ):
        _print({"rows": [], "recordedSince": since}, ReportOutput.table)
        assert capsys.readouterr().err.startswith(says)
