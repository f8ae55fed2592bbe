"""Several replays together: the mean of each figure over seeds with its 95 % interval, differences between policies in
pairs of equal seeds, and the load at which a policy's mean wait is what was asked for.

A seed deals the nodes to the members anew, shifts every arrival by up to the jitter and orders what is tied; the jobs
are the same. So the intervals say what such accidents do to a figure, not what another month's jobs would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

from fleet.simulate.replay.table import BadTrace

MOST_PROBES = 40

_T95 = (  # two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)

_FIGURES = (
    ("wait_s", "mean"),
    ("wait_s", "p50"),
    ("wait_s", "p95"),
    ("wait_s", "p99"),
    ("jct_s", "mean"),
    ("delay_s", "mean"),
    ("delay_s", "p99"),
    ("makespan_s",),
    ("allocated",),
    ("fragmentation",),
    ("unmet", "longest_s"),
    ("unmet", "largest_share"),
    ("evictions",),
    ("lost_gpu_h",),
    ("kept_gpu_h",),
)


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean, and half the width of its 95 % interval when there is more than one value."""
    mean = sum(values) / len(values)
    found = {"mean": round(mean, 4)}
    if len(values) > 1:
        deviation = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        quantile = _T95[min(len(values) - 2, len(_T95) - 1)]
        found["plus_minus"] = round(quantile * deviation / sqrt(len(values)), 4)
    return found


def figures(reports: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By dotted name, the value in every report. With the waits of the largest gangs that all of them have."""
    paths = (path for path in _FIGURES if all(path[0] in report for report in reports))
    by_name = {".".join(path): [_at(report, path) for report in reports] for path in paths}
    sizes = set.intersection(*(set(report["wait_s_by_gpus"]) for report in reports)) if reports else set()
    if sizes:
        largest = max(sizes, key=int)
        for name in ("mean", "p99"):
            path = ("wait_s_by_gpus", largest, name)
            by_name[f"wait_s_of_{largest}_gpus.{name}"] = [_at(report, path) for report in reports]
    return by_name


def _at(report: Mapping[str, Any], path: Sequence[str]) -> float:
    value: Any = report
    for key in path:
        value = value.get(key, 0.0)
    return float(value)


def summarised(reports: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """`reports`: by policy, one per seed in the same order. The first policy is compared with each of the others."""
    by_policy = {policy: figures(runs) for policy, runs in reports.items()}
    document: dict[str, Any] = {
        "summary": {
            policy: {name: interval(values) for name, values in every.items()} for policy, every in by_policy.items()
        }
    }
    names = list(by_policy)
    document["differences"] = {
        f"{names[0]} - {other}": {
            name: interval([a - b for a, b in zip(values, by_policy[other][name], strict=True)])
            for name, values in by_policy[names[0]].items()
            if name in by_policy[other]
        }
        for other in names[1:]
    }
    return document


def calibrate(mean_wait: Callable[[float], float], target_s: float, *, start: float = 1.0) -> float:
    """The load at which `mean_wait(load)`, in seconds, is `target_s` to within 1 %, by bisection; the nearest one if
    the wait jumps there. Raises BadTrace when no load up to a thousandfold makes jobs wait so long."""
    low, high = 0.0, start
    probes = 0
    while (wait := mean_wait(high)) < target_s:
        low, high = high, high * 2
        probes += 1
        if probes >= 11:
            raise BadTrace(f"even at {low:g} times the load the mean wait is only {wait:.0f} s")
    best = (abs(wait - target_s), -high)
    while probes < MOST_PROBES and best[0] > 0.01 * target_s and high - low > 1e-6 * high:
        middle = (low + high) / 2
        wait = mean_wait(middle)
        best = min(best, (abs(wait - target_s), -middle))
        low, high = (middle, high) if wait < target_s else (low, middle)
        probes += 1
    return -best[1]
