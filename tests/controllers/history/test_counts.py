"""Jobs that ended and GPU time that was lost are counted once, by leaf and cause."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from fleet.accounts.fold import JobLife
from fleet.accounts.recorder import JobChange
from fleet.accounts.run import AttemptOutcome, AttemptRun, begun
from fleet.controllers.history.counts import count
from fleet.controllers.runtime.metrics import Metrics

LIFE = JobLife("uid", 0.0, "default", "one", "PyTorchJob", queue="root/ml", gpus=8, run=begun(1, 10.0, "cfa", 8))


def told(*lives: JobLife) -> Metrics:
    """What is counted while a life goes on as these."""
    metrics = Metrics()
    count(metrics, [JobChange(before, after, {}, 0.0) for before, after in pairwise(lives)])
    return metrics


def ended(metrics: Metrics, leaf: str, outcome: str) -> float | None:
    return metrics.registry.get_sample_value("fleet_jobs_finished_total", {"leaf": leaf, "outcome": outcome})


def lost(metrics: Metrics, reason: str) -> float | None:
    return metrics.registry.get_sample_value("fleet_lost_gpu_seconds_total", {"leaf": "root/ml", "reason": reason})


def test_a_job_ends_once_whatever_changes_after_its_end() -> None:
    over = replace(LIFE, ended=90.0, state="Succeeded")
    assert ended(told(LIFE, over, replace(over, message="cleaned up")), "root/ml", "Succeeded") == 1
    assert ended(told(LIFE, over, replace(LIFE, state="Running"), over), "root/ml", "Succeeded") == 2, "it ran again"
    assert ended(told(LIFE, replace(over, queue=None, state="Deleted")), "(none)", "Deleted") == 1


def test_time_is_lost_by_the_reason_of_the_eviction() -> None:
    run = LIFE.run
    assert run is not None
    evicted = replace(
        LIFE, evictions=1, lost_gpu_s=640.0, run=replace(run, why="Preempted", outcome=AttemptOutcome.EVICTED)
    )
    metrics = told(LIFE, evicted, replace(evicted, message="waits"))
    assert lost(metrics, "Preempted") == 640
    assert lost(metrics, "Failed") is None


def test_time_of_a_failed_attempt_is_lost_when_another_follows() -> None:
    again = replace(LIFE, lost_gpu_s=100.0, run=AttemptRun(2, 50.0, "cfb", ()))
    assert lost(told(LIFE, again), "Failed") == 100
