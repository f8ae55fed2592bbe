"""`fleet jobs`: what a line says of a job, and that all pages are asked for."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet.amc.client import ServerAnswer
from fleet.cli.failure import Failure
from fleet.cli.hub import HubClient
from fleet.cli.joblist import JOBS, listed
from fleet.cli.jobs import record
from tests.cli.hub import Up, fleet, until
from tests.cli.manifests import TREE, job, policy, written

MAX_JOBS = {"code": "MaxJobsReached", "text": "root/a already runs 1 of at most 1 job", "numbers": {"max": 1}}


def shown(**job: Any) -> dict[str, Any]:
    known = {
        "namespace": "default",
        "name": "a",
        "kind": "PyTorchJob",
        "state": "Running",
        "queue": None,
        "position": None,
        "tier": None,
        "member": None,
        "reason": None,
        "priority": 0,
        "attempt": 1,
        "gpus": 8,
        "pods": 1,
        "user": "alice",
        "created": "2026-01-01T00:00:00Z",
    }
    return record(known | job, 1767225600.0 + 90)


def test_a_job_that_waits_has_a_place_and_a_reason() -> None:
    line = shown(state="Queued", queue="root/a", position=2, tier="Share", reason=MAX_JOBS)
    assert {name: line[name] for name in ("state", "queue", "position", "tier", "member", "age", "reason", "code")} == {
        "state": "Queued",
        "queue": "root/a",
        "position": 2,
        "tier": "Share",
        "member": "",
        "age": "90s",
        "reason": MAX_JOBS["text"],
        "code": "MaxJobsReached",
    }
    assert line["numbers"] == {"max": 1}


def test_a_job_that_runs_has_neither() -> None:
    line = shown(member="cfa")
    assert (line["state"], line["member"], line["position"], line["reason"], line["code"]) == (
        "Running",
        "cfa",
        None,
        "",
        None,
    )


def test_a_reason_without_a_sentence_shows_its_code() -> None:
    assert shown(reason={"code": "FullyApplied", "text": "", "numbers": {}})["reason"] == "FullyApplied"


class _Pages:
    """A hub that has its jobs on pages of one."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.asked: list[str] = []

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "") -> ServerAnswer:
        self.asked.append(path)
        index = int(path.partition("continue=")[2] or 0)
        following = str(index + 1) if index + 1 < len(self.names) else None
        page = {
            "items": [{"name": name} for name in self.names[index : index + 1]],
            "continue": following,
            "partial": False,
        }
        return ServerAnswer(200, page, json.dumps(page).encode())


def test_every_page_is_asked_for() -> None:
    pages = _Pages(["one", "two", "three"])
    hub = HubClient(pages, "kubeconfig")  # type: ignore[arg-type]
    assert [found["name"] for found in listed(hub, "team")[0]] == ["one", "two", "three"]
    assert all(path.startswith(f"{JOBS}?") and "namespace=team" in path for path in pages.asked)
    assert [found["name"] for found in listed(hub, None)[0]] == ["one", "two", "three"]
    assert "namespace" not in pages.asked[-1]


def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.cli.joblist.PAGES_MAX", 2)
    with pytest.raises(Failure, match="more than"):
        listed(HubClient(_Pages(["one", "two", "three"]), "kubeconfig"), None)  # type: ignore[arg-type]


def test_a_hub_lists_who_waits_at_which_place(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--members", "1", "--nodes", "1", "--gpus", "8")
    where = ("--data-dir", str(up.folder))

    def lines(*words: str) -> dict[str, dict[str, Any]]:
        done = fleet("jobs", *words, *where, "-o", "json")
        assert done.returncode == 0, done.stderr
        return {line["name"]: line for line in json.loads(done.stdout)}

    def waits(name: str) -> bool:
        return bool(lines()[name]["code"] == "MaxJobsReached")

    try:
        done = fleet("submit", written(tmp_path / "jobs.yaml", TREE, policy(), job("one")), *where)
        assert done.returncode == 0, done.stderr
        until("the first runs", lambda: lines()["one"]["state"] == "Running")
        for name in ("two", "three"):
            assert fleet("submit", written(tmp_path / f"{name}.yaml", job(name)), *where).returncode == 0
            until("it waits for a reason", partial(waits, name))
        found = lines("-A")
        assert [found[name]["position"] for name in ("one", "two", "three")] == [None, 1, 2]
        assert (found["two"]["queue"], found["two"]["tier"]) == ("root/a", "Borrowed")
        table = fleet("jobs", *where).stdout.splitlines()
        assert table[0].split() == ["NAME", "KIND", "STATE", "POSITION", "MEMBER", "AGE", "REASON"]
        wide = fleet("jobs", "-o", "wide", *where).stdout.splitlines()
        assert wide[0] == table[0].replace("POSITION", "QUEUE    POSITION   PRIORITY   USER ").replace(
            "AGE", "ATTEMPT   GPUS   PODS   AGE"
        )
        assert wide[1].split()[:11] == [
            "one",
            "PyTorchJob",
            "Running",
            "root/a",
            "-",
            "0",
            "admin",
            "cfa",
            "1",
            "8",
            "1",
        ]
        explained = fleet("explain", "three", *where).stdout
        assert "Queue:      root/a" in explained and "Position:   2 of 2 in root/a" in explained
        missing = fleet("explain", "four", *where)
        assert missing.stderr == 'fleet: no job "four" in namespace default (fleet jobs -A lists them)\n'
    finally:
        assert up.stop() == 0, up.errors.read_text()
