"""One attempt of a job, and the GPU time of it: by model, counted whenever the number of its GPUs changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

UNKNOWN_MODEL = ""


class AttemptOutcome(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    EVICTED = "Evicted"
    WITHDRAWN = "Withdrawn"  # it left before all its pods had a node
    DELETED = "Deleted"
    UNSEEN = "NotRecorded"  # it ended while nothing was recorded


@dataclass(frozen=True, slots=True)
class ModelGpus:
    """The GPUs of one model, and their GPU-seconds until the attempt's `counted`."""

    model: str
    gpus: int
    gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """The rows of one attempt. `why`: set when it begins to leave, `outcome` when it has ended."""

    number: int
    placed: float
    member: str
    parts: tuple[ModelGpus, ...]
    started: float | None = None
    ended: float | None = None
    counted: float | None = None
    outcome: str | None = None
    why: str | None = None

    @property
    def gpus(self) -> int:
        return sum(part.gpus for part in self.parts)

    @property
    def gpu_s(self) -> float:
        return sum(part.gpu_s for part in self.parts)

    def since(self, saved: float) -> float:
        """The GPU-seconds that are lost where work is saved up to `saved`; of an attempt that has ended."""
        if self.started is None or self.ended is None or saved <= self.started:
            return self.gpu_s
        return self.gpu_s * max(0.0, self.ended - saved) / max(self.ended - self.started, 1e-9)


def begun(number: int, placed: float, member: str, gpus: int) -> AttemptRun:
    return AttemptRun(number, placed, member, (ModelGpus(UNKNOWN_MODEL, gpus),))


def counted(run: AttemptRun, at: float) -> AttemptRun:
    """The same, its GPU time counted up to `at`."""
    if run.started is None or run.counted is None or at <= run.counted:
        return run
    seconds = at - run.counted
    return replace(run, counted=at, parts=tuple(replace(p, gpu_s=p.gpu_s + p.gpus * seconds) for p in run.parts))


def resized(run: AttemptRun, at: float, gpus: int, models: Mapping[str, int]) -> AttemptRun:
    """The attempt has so many GPUs from now on, of these models. Models that do not account for all GPUs count only
    where there is no doubt: one model has them all. A model that was known stays."""
    old_counts = {part.model: part.gpus for part in run.parts}
    if sum(models.values()) != gpus:
        models = {next(iter(models)): gpus} if len(models) == 1 else {}
    if not models and gpus == run.gpus:
        return run
    if not models:
        models = {next(iter(old_counts)): gpus} if len(old_counts) == 1 else {UNKNOWN_MODEL: gpus}
    new_counts = {model: count for model, count in models.items() if count} or {UNKNOWN_MODEL: 0}
    if new_counts == old_counts:
        return run
    run = counted(run, at)
    before = {part.model: part.gpu_s for part in run.parts}
    unknown = before.pop(UNKNOWN_MODEL, 0.0)
    parts = {model: ModelGpus(model, 0, gpu_s) for model, gpu_s in before.items() if gpu_s or model in new_counts}
    for model, count in new_counts.items():  # time of an unknown model was the time of these
        share = unknown * count / gpus if gpus else 0.0
        parts[model] = ModelGpus(model, count, before.get(model, 0.0) + share)
    return replace(run, parts=tuple(parts.values()))


def with_end(run: AttemptRun, at: float, outcome: AttemptOutcome) -> AttemptRun:
    return replace(counted(run, at), ended=at, outcome=str(outcome))


def restarted(run: AttemptRun, at: float) -> AttemptRun:
    """It goes on after all: its member says no longer that it is over."""
    return replace(run, ended=None, outcome=None, counted=at if run.started is not None else None)
