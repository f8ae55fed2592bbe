"""Plots of replays, one PNG for each question; the policies are the lines in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.simulate.replay.metrics import StepSeries

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
_WAITS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 86_400: "1 d", 864_000: "10 d"}
_MOST_POINTS = 4000  # of one line


@dataclass(frozen=True, slots=True)
class PolicyCurves:
    """The curves of one policy, of its first seed. `gpus`: of the fleet; `waits`: of every job, in seconds."""

    steps: StepSeries
    gpus: int
    waits: Sequence[float]


def write(lines: Mapping[str, PolicyCurves], into: Path) -> list[Path]:
    """The files that were written, in the directory `into`, which is made when it is missing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    into.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, title, draw in (
        ("wait-cdf", "How many jobs have waited at most so long", _waits),
        ("allocated", "GPUs in use", _allocated),
        ("queue", "Jobs that wait", _queue),
        ("unmet", "Largest unmet part of any leaf's guaranteed share", _unmet),
    ):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for policy, line in lines.items():
            draw(axes, policy, line)
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.legend()
        path = into / f"{name}.png"
        figure.savefig(path, dpi=120)
        written.append(path)
    return written


def _waits(axes: Axes, policy: str, line: PolicyCurves) -> None:
    ordered = sorted(line.waits)
    if not ordered:  # no job ever started
        axes.plot([], [], label=policy)
        return
    ranks = [*range(0, len(ordered), max(1, len(ordered) // _MOST_POINTS)), len(ordered) - 1]
    at = [max(1.0, ordered[rank]) for rank in ranks]
    axes.step([at[0], *at], [0.0, *((rank + 1) / len(ordered) for rank in ranks)], where="post", label=policy)
    axes.set_xscale("log")
    axes.set_xticks(list(_WAITS), labels=list(_WAITS.values()))
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.8, max(10.0, 1.3 * float(axes.dataLim.x1)))
    axes.set_xlabel("wait (a second at least)")
    axes.set_ylabel("part of the jobs that started")


def _steps(axes: Axes, policy: str, at: Sequence[float], values: Sequence[float]) -> None:
    every = max(1, len(at) // _MOST_POINTS)
    longest = max(at, default=0.0)
    unit, seconds = next((item for item in _UNITS if longest >= 3 * item[1]), _UNITS[-1])
    if axes.get_xlabel():  # the first line has chosen
        unit = axes.get_xlabel()
        seconds = dict(_UNITS)[unit]
    axes.step([time / seconds for time in at[::every]], values[::every], where="post", label=policy, linewidth=1)
    axes.set_xlabel(unit)


def _allocated(axes: Axes, policy: str, line: PolicyCurves) -> None:
    _steps(axes, policy, line.steps.at, [used / max(1, line.gpus) for used in line.steps.used])
    axes.set_ylabel("part of all GPUs")
    axes.set_ylim(0, 1.02)


def _queue(axes: Axes, policy: str, line: PolicyCurves) -> None:
    from matplotlib.ticker import MaxNLocator

    _steps(axes, policy, line.steps.at, line.steps.waiting)
    axes.set_ylabel("jobs")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def _unmet(axes: Axes, policy: str, line: PolicyCurves) -> None:
    _steps(axes, policy, line.steps.at, line.steps.unmet)
    axes.set_ylabel("part of its min")
