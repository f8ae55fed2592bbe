"""The figures of a replay, from its log: waits, completion, use of the fleet, promises kept, work lost.

A job's wait is the time from its arrival to its first start; its completion time (JCT) runs to its end; its delay is
what its completion took beyond its own running, so with waits after evictions and with work done twice.

Use and fragmentation are means over the time in which jobs arrive, and of all of it where they arrive at once. A job
that never starts is counted, and in no figure.

A leaf's unmet share at a moment is min(its `min`, its running and waiting jobs) less its running jobs. The share is
*owed* as long as more is unmet than its next unit asks for: then that unit would fit within the promise and does not
run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from fleet.core.foresee.forward import UnitEventKind
from fleet.core.quota.tree import QuotaTree
from fleet.simulate.replay.run import ReplayResult
from fleet.simulate.replay.trace import GPU
from fleet.simulate.replay.world import ROOT, ZERO


@dataclass(slots=True)
class StepSeries:
    """Step functions: the values from `at` on (seconds of the replay), GPUs and jobs of the whole fleet. `unmet`: the
    largest unmet part of any leaf's min. `owed`: by leaf, the GPUs that it is owed."""

    at: list[float] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    unmet: list[float] = field(default_factory=list)
    owed: dict[str, list[int]] = field(default_factory=dict)


class _Leaf:
    def __init__(self, least: int) -> None:
        self.min = least
        self.used = 0
        self.demand = 0  # by those that wait
        self.waits: dict[str, int] = {}
        self._queue: list[tuple[float, str]] = []

    def wait(self, key: str, since: float, gpus: int) -> None:
        self.waits[key] = gpus
        self.demand += gpus
        heappush(self._queue, (since, key))

    def start(self, key: str) -> None:
        gpus = self.waits.pop(key)
        self.demand -= gpus
        self.used += gpus

    def leave(self, gpus: int) -> None:
        self.used -= gpus

    @property
    def unmet(self) -> int:
        return max(0, min(self.min, self.used + self.demand) - self.used)

    @property
    def owed(self) -> int:
        while self._queue and self._queue[0][1] not in self.waits:
            heappop(self._queue)
        unmet = self.unmet
        return unmet if self._queue and unmet > self.waits[self._queue[0][1]] else 0


def series(done: ReplayResult, tree: QuotaTree) -> StepSeries:
    """The GPUs in use, the waiting ones and the owed ones after every event."""
    leaves = {node.name: _Leaf(node.min.get(GPU, 0)) for node in tree.nodes.values() if node.path != ROOT}
    result = StepSeries(owed={name: [] for name in leaves})
    used = waiting = 0
    for number, event in enumerate(done.log):
        job = done.jobs[event.unit]
        leaf = leaves[job.queue]
        match event.what:
            case UnitEventKind.SUBMITTED:
                leaf.wait(job.id, done.arrivals[job.id], job.gpus)
                waiting += 1
            case UnitEventKind.STARTED:
                leaf.start(job.id)
                used, waiting = used + job.gpus, waiting - 1
            case UnitEventKind.ENDED | UnitEventKind.LEFT if job.id not in leaf.waits:
                leaf.leave(job.gpus)
                used -= job.gpus
                if event.what is UnitEventKind.LEFT:
                    leaf.wait(job.id, done.arrivals[job.id], job.gpus)
                    waiting += 1
            case _:  # changes nothing here, but may be the last at this time
                pass
        if number + 1 < len(done.log) and done.log[number + 1].at == event.at:
            continue
        result.at.append(event.at - ZERO)
        result.used.append(used)
        result.waiting.append(waiting)
        result.unmet.append(max((one.unmet / one.min for one in leaves.values() if one.min), default=0.0))
        for name, one in leaves.items():
            result.owed[name].append(one.owed)
    return result


def report(done: ReplayResult, tree: QuotaTree, steps: StepSeries) -> dict[str, Any]:
    """One replay as a JSON document. `timing` has real seconds, which differ from run to run; nothing else does."""
    first: dict[str, float] = {}
    ended: dict[str, float] = {}
    evictions = 0
    for event in done.log:
        if event.what is UnitEventKind.STARTED:
            first.setdefault(event.unit, event.at)
        elif event.what is UnitEventKind.ENDED:
            ended[event.unit] = event.at
        evictions += event.what is UnitEventKind.EVICTED
    waits = {key: at - done.arrivals[key] for key, at in first.items()}
    durations = {key: at - done.arrivals[key] for key, at in ended.items()}
    begin, end = _watched(done, ended.values())
    return {
        "stopped": done.stopped.name,
        "jobs": len(done.jobs),
        "never_started": len(done.jobs) - len(first),
        "ended": len(ended),
        "gpus": done.gpus,
        "wait_s": summary(waits.values()),
        "wait_s_by_leaf": _grouped(waits, {key: done.jobs[key].queue for key in waits}),
        "wait_s_by_gpus": _grouped(waits, {key: done.jobs[key].gpus for key in waits}),
        "jct_s": summary(durations.values()),
        "delay_s": summary(max(0.0, at - done.jobs[key].duration_s) for key, at in durations.items()),
        "makespan_s": round(max(ended.values()) - ZERO - begin, 3) if ended else 0.0,
        "allocated": _mean_share(steps, done.gpus, begin, end),
        "fragmentation": _fragmentation(done, begin, end),
        "unmet": _unmet(steps, tree, done.now - ZERO),
        "evictions": evictions,
        "lost_gpu_h": round(done.lost_gpu_s / 3600, 3),
        **({} if done.kept_gpu_s is None else {"kept_gpu_h": round(done.kept_gpu_s / 3600, 3)}),
        "decisions": done.decisions,
        "shipped": dict(sorted(done.shipped.items())),
        "timing": {
            "decision_s": summary(done.decided_s, digits=6),
            "decisions_total_s": round(sum(done.decided_s), 3),
        },
    }


def _watched(done: ReplayResult, ended: Collection[float]) -> tuple[float, float]:
    """From the first arrival to the last; where all come at once, to the last end."""
    arrived = [at - ZERO for at in done.arrivals.values()]
    begin, end = min(arrived, default=0.0), max(arrived, default=0.0)
    return begin, end if end > begin else max((at - ZERO for at in ended), default=begin)


def summary(values: Iterable[float], digits: int = 1) -> dict[str, float]:
    """Number, mean, percentiles and maximum; of nothing the number only."""
    array = np.array(sorted(values), dtype=np.float64)
    if not len(array):
        return {"n": 0}
    p50, p95, p99 = np.percentile(array, (50, 95, 99))
    named = {"mean": array.mean(), "p50": p50, "p95": p95, "p99": p99, "max": array[-1]}
    return {"n": len(array), **{name: round(float(value), digits) for name, value in named.items()}}


def _grouped(values: Mapping[str, float], groups: Mapping[str, str | int]) -> dict[str, dict[str, float]]:
    found: dict[str | int, list[float]] = {}
    for key, value in values.items():
        found.setdefault(groups[key], []).append(value)
    return {str(group): summary(found[group]) for group in sorted(found, key=lambda g: (isinstance(g, str), g))}


def _mean_share(steps: StepSeries, gpus: int, begin: float, end: float) -> float:
    """The part of the GPUs that is in use, on average."""
    total = 0.0
    for number, at in enumerate(steps.at):
        until = steps.at[number + 1] if number + 1 < len(steps.at) else end
        total += steps.used[number] * max(0.0, min(until, end) - max(at, begin))
    return round(total / (gpus * (end - begin)), 4) if gpus and end > begin else 0.0


def _fragmentation(done: ReplayResult, begin: float, end: float) -> float:
    """Of the GPUs of nodes with 8 or more, the part that is free outside whole eights; mean over the same time."""
    broken = watched = 0.0
    for seen in done.samples:
        seconds = min(seen.at + seen.seconds - ZERO, end) - max(seen.at - ZERO, begin)
        if seconds > 0 and seen.whole:
            broken += seconds * (seen.free - seen.in_eights) / seen.whole
            watched += seconds
    return round(broken / watched, 4) if watched else 0.0


def _unmet(steps: StepSeries, tree: QuotaTree, end: float) -> dict[str, Any]:
    leaves: dict[str, dict[str, float]] = {}
    for name, owed in steps.owed.items():
        longest, gpu_s = _longest(steps.at, owed, end)
        least = tree.nodes[f"{ROOT}/{name}"].min.get(GPU, 0)
        leaves[name] = {
            "min": least,
            "longest_s": longest,
            "most_gpus": max(owed, default=0),
            "gpu_h": round(gpu_s / 3600, 2),
        }
    return {
        "longest_s": max((leaf["longest_s"] for leaf in leaves.values()), default=0.0),
        "largest_share": round(max(steps.unmet, default=0.0), 4),
        "leaves": leaves,
    }


def _longest(at: Sequence[float], owed: Sequence[int], end: float) -> tuple[float, float]:
    """The longest time that something was owed without a break, and the sum over time."""
    longest = total = 0.0
    since: float | None = None
    for number, gpus in enumerate(owed):
        until = at[number + 1] if number + 1 < len(at) else end
        total += gpus * (until - at[number])
        if gpus and since is None:
            since = at[number]
        if not gpus:
            since = None
        elif since is not None:
            longest = max(longest, until - since)
    return round(longest, 1), total
