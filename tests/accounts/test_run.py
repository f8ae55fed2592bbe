"""GPU time of one attempt: by model, through changes of its size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.accounts.run import AttemptOutcome, AttemptRun, ModelGpus, begun, counted, resized, restarted, with_end


def started(gpus: int = 8) -> AttemptRun:
    return replace(begun(1, 0.0, "cfa", gpus), started=10.0, counted=10.0)


def test_each_size_counts_for_as_long_as_it_was() -> None:
    run = resized(started(8), 110.0, 4, {})
    run = resized(run, 210.0, 16, {})
    done = with_end(run, 310.0, AttemptOutcome.SUCCEEDED)
    assert done.gpu_s == 100 * 8 + 100 * 4 + 100 * 16
    assert (done.gpus, done.counted, done.outcome) == (16, 310.0, "Succeeded")


def test_time_before_the_models_were_known_is_theirs() -> None:
    run = resized(started(8), 110.0, 8, {"A100": 6, "H200": 2})
    assert run.parts == (ModelGpus("A100", 6, 600.0), ModelGpus("H200", 2, 200.0))
    assert resized(run, 200.0, 8, {}) == run
    smaller = resized(run, 210.0, 6, {"A100": 6})
    assert smaller.parts == (ModelGpus("A100", 6, 1200.0), ModelGpus("H200", 0, 400.0))


@pytest.mark.parametrize(
    ("models", "expected"),
    [({"A100": 0}, {"A100": 8}), ({"A100": 3}, {"A100": 8}), ({"A100": 3, "H200": 2}, {"": 8}), ({}, {"": 8})],
)
def test_models_that_do_not_account_for_all_gpus_count_without_doubt_only(
    models: dict[str, int], expected: dict[str, int]
) -> None:
    run = resized(started(8), 10.0, 8, models)
    assert {part.model: part.gpus for part in run.parts} == expected


def test_nothing_counts_before_the_start_and_after_the_end() -> None:
    assert counted(begun(1, 0.0, "cfa", 8), 100.0).gpu_s == 0.0
    done = with_end(started(1), 20.0, AttemptOutcome.FAILED)
    again = restarted(done, 50.0)
    assert with_end(again, 60.0, AttemptOutcome.SUCCEEDED).gpu_s == 20.0


@pytest.mark.parametrize(("saved", "lost"), [(0.0, 800.0), (10.0, 800.0), (60.0, 400.0), (200.0, 0.0)])
def test_work_that_is_saved_is_not_lost(saved: float, lost: float) -> None:
    assert with_end(started(8), 110.0, AttemptOutcome.EVICTED).since(saved) == pytest.approx(lost)
