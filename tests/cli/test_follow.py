"""`fleet logs -f` of several pods, where a pod goes between the list of pods and its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import typer

from fleet.cli import joblog
from fleet.cli.hub import Refused

WORKERS = ["a-worker-0", "a-worker-1"]


def follow(monkeypatch: pytest.MonkeyPatch, *refused: tuple[str, int], at_once: bool = True) -> int:
    """The exit status; the log of each pod that is not refused is one line."""

    def pieces(_job: object, query: Mapping[str, str]) -> Iterator[bytes]:
        pod = query["pod"]
        for name, status in refused:
            if name == pod:
                raise Refused(f'pods "{name}": no', status)
        yield b"epoch 1\n"

    monkeypatch.setattr(joblog, "_pieces", pieces)
    job: Any = None
    try:
        joblog._merged(job, ["a-master-0", *WORKERS], {}, at_once=at_once)
    except typer.Exit as end:
        return end.exit_code
    return 0


def test_workers_that_are_deleted_while_they_are_followed_are_no_failure(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert follow(monkeypatch, *((name, 404) for name in WORKERS)) == 0
    out, err = capfd.readouterr()
    assert out == "[a-master-0] epoch 1\n"
    assert sorted(err.splitlines()) == [f"fleet: {name} is deleted, and its log with it" for name in WORKERS]


@pytest.mark.parametrize(
    ("refused", "at_once"),
    [
        ([("a-worker-0", 403)], True),
        ([(name, 404) for name in ("a-master-0", *WORKERS)], True),
        ([("a-worker-0", 404)], False),
    ],
    ids=["forbidden", "no pod is left", "not followed"],
)
def test_other_logs_that_cannot_be_had_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, refused: list[tuple[str, int]], at_once: bool
) -> None:
    assert follow(monkeypatch, *refused, at_once=at_once) == 1
