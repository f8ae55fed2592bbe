"""Since when the GPUs of each job are used little, as pure functions of the time and of figures that come in rounds.

A job is below a level from the first figure in a row that is below. A round without figures of a job says nothing of
it: the times stay for KEPT_S. Nothing is stored here; the row that the controllers write (gpuuse.py) has the times, so
that the next leader goes on with them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleet.bindings.gpuuse import LEVELS

KEPT_S = 600.0  # the times of a job whose GPUs nobody tells


@dataclass(slots=True)
class LowGpuUse:
    """Of one job: the mean use of its GPUs (0 to 1) and their number at `figure_at` (epoch seconds); since when it is
    below each level, in percent."""

    use: float
    gpus: int
    figure_at: float
    since: dict[int, float] = field(default_factory=dict)


class LowUse:
    """The jobs whose use is below the highest level, by the id of their unit."""

    def __init__(self) -> None:
        self.jobs: dict[str, LowGpuUse] = {}

    def begin(self, since: Mapping[str, Mapping[int, float]], now: float) -> None:
        """The times that an earlier leader knew."""
        self.jobs = {unit: LowGpuUse(0.0, 0, now, dict(times)) for unit, times in since.items()}

    def see(self, unit: str, use: float, gpus: int, now: float) -> None:
        before = self.jobs.get(unit)
        since = {
            level: before.since.get(level, now) if before is not None else now for level in LEVELS if use * 100 < level
        }
        if since:
            self.jobs[unit] = LowGpuUse(use, gpus, now, since)
        else:
            self.jobs.pop(unit, None)

    def keep(self, units: Collection[str], now: float) -> None:
        """Forget jobs that are not among these any more, and those that nobody told of for KEPT_S."""
        self.jobs = {unit: low for unit, low in self.jobs.items() if unit in units and now - low.figure_at <= KEPT_S}
