"""What people are told is the difference of a job's life before an event and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.accounts.fold import JobLife
from fleet.accounts.run import AttemptOutcome, AttemptRun, begun, with_end
from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify.happening import Happening, happenings

QUEUED = JobLife("5e1", 100.0, "vision", "train", "PyTorchJob", user="ada", queue="root/vision", gpus=8)
PLACED = replace(QUEUED, run=begun(1, 110.0, "cfa", 8), attempts=1)


def running(life: JobLife, at: float) -> JobLife:
    run = life.run
    assert isinstance(run, AttemptRun)
    return replace(life, run=replace(run, started=at, counted=at), state="Running", started=at)


RUNNING = running(PLACED, 120.0)
assert RUNNING.run is not None
EVICTED = replace(
    RUNNING,
    run=with_end(replace(RUNNING.run, why="Reclaimed"), 200.0, AttemptOutcome.EVICTED),
    evictions=1,
    state="Queued",
)
AGAIN = replace(EVICTED, run=begun(2, 210.0, "cfb", 8), attempts=2)
DONE = replace(RUNNING, run=with_end(RUNNING.run, 300.0, AttemptOutcome.SUCCEEDED), state="Succeeded", ended=300.0)
FAILED = replace(DONE, state="Failed", why="JobFailed", message="exit code 1")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, QUEUED, []),
        (QUEUED, PLACED, []),
        (PLACED, RUNNING, [("Started-1", 120.0, "cfa", None)]),
        (RUNNING, RUNNING, []),
        (RUNNING, EVICTED, [("Evicted-1", 200.0, "cfa", "Reclaimed")]),
        (EVICTED, AGAIN, []),
        (AGAIN, running(AGAIN, 220.0), [("Started-2", 220.0, "cfb", None)]),
        (RUNNING, DONE, [("Succeeded-1", 300.0, "cfa", None)]),
        (RUNNING, FAILED, [("Failed-1", 300.0, "cfa", "JobFailed")]),
        (DONE, DONE, []),
        (PLACED, DONE, [("Started-1", 120.0, "cfa", None), ("Succeeded-1", 300.0, "cfa", None)]),
        (RUNNING, replace(DONE, state="Deleted"), []),
    ],
)
def test_each_change_is_told_once(before: JobLife | None, after: JobLife, told: list[object]) -> None:
    found = list(happenings(before, after, 400.0))
    assert [(one.key, one.at, one.member, one.why) for one in found] == told


def test_a_happening_survives_the_table() -> None:
    (one,) = happenings(RUNNING, FAILED, 300.0)
    assert Happening.of_json(one.as_json()) == one
    assert (one.told, one.user, one.queue, one.gpus) == (NotificationEvent.FAILED, "ada", "root/vision", 8)
