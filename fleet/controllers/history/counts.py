"""Counts jobs that ended and GPU time that was lost, as the history records them."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.accounts.recorder import JobChange
from fleet.accounts.run import AttemptOutcome
from fleet.controllers.runtime.gauges import OUTSIDE
from fleet.controllers.runtime.metrics import Metrics


def count(metrics: Metrics, changes: Iterable[JobChange]) -> None:
    """`changes`: that are recorded now, each given once."""
    for change in changes:
        before, after = change.before, change.after
        leaf = after.queue or OUTSIDE
        if after.ended is not None and (before is None or before.ended is None):
            metrics.ended_job(leaf, after.state)
        lost = after.lost_gpu_s - (before.lost_gpu_s if before is not None else 0.0)
        if lost > 0:
            metrics.lost_gpu_time(leaf, _cause(change), lost)


def _cause(change: JobChange) -> str:
    """Of lost time: the reason of the eviction, or that the attempt failed and another one has begun."""
    before, run = change.before, change.after.run
    if before is not None and before.run is not None and run is not None and before.run.number != run.number:
        return str(AttemptOutcome.FAILED)
    return (run.why if run is not None else None) or str(AttemptOutcome.EVICTED)
