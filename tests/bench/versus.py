"""The table of two servers beside each other: medians with their spread, the ratio, and the part that binds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.loader import Result
from tests.bench.report import Figure, Report

HEAD = ("", "unit", "hub", "kube-apiserver", "times theirs", "goal", "binds the hub", "binds theirs")


@dataclass(frozen=True)
class Row:
    """One measured thing of both servers. `ratios` compare the two of each round. `less`: less is better. `cores`: that
    each part used, the median."""

    name: str
    unit: str
    goal: float | None
    less: bool
    hub: tuple[float, ...]
    real: tuple[float, ...]
    hub_cores: dict[str, float]
    real_cores: dict[str, float]

    @staticmethod
    def of(
        name: str, unit: str, goal: float | None, less: bool, value: str, hub: Sequence[Result], real: Sequence[Result]
    ) -> Row:
        def values(results: Sequence[Result]) -> tuple[float, ...]:
            return tuple(getattr(one, value) if hasattr(one, value) else one.figures[value] for one in results)

        return Row(name, unit, goal, less, values(hub), values(real), cores_of(hub), cores_of(real))

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(ours / theirs for ours, theirs in zip(self.hub, self.real, strict=True))

    @property
    def reached(self) -> bool | None:
        """Whether the goal is; None without a goal."""
        if self.goal is None:
            return None
        ratio = statistics.median(self.ratios)
        return ratio <= self.goal if self.less else ratio >= self.goal

    def cells(self) -> tuple[str, ...]:
        goal = "" if self.goal is None else f"{'≤' if self.less else '≥'} {self.goal:g}"
        missed = ", missed" if self.reached is False else ""
        return (
            self.name,
            self.unit,
            spread(self.hub),
            spread(self.real),
            spread(self.ratios, 2),
            goal + missed,
            binds(self.hub_cores),
            binds(self.real_cores),
        )


def cores_of(results: Sequence[Result]) -> dict[str, float]:
    return {part: statistics.median(result.cores[part] for result in results) for part in results[0].cores}


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and the least and the most."""
    if not digits and statistics.median(values) < 100:
        digits = 1
    median, least, most = (f"{v:,.{digits}f}" for v in (statistics.median(values), min(values), max(values)))
    return median if least == most else f"{median} ({least} to {most})"


def binds(cores: dict[str, float]) -> str:
    """The part that used the most of the cores; a small share means that all of them wait, mostly for the disk."""
    if not cores:
        return ""
    part = max(cores, key=lambda name: cores[name])
    return f"{part}, {cores[part]:.1f} of {sum(cores.values()):.1f} cores"


def add(report: Report, rows: Sequence[Row]) -> None:
    for row in rows:
        goal = row.cells()[5]
        report.add(Figure(row.name, f"{row.unit} of the hub", row.hub))
        report.add(Figure("times theirs", "", row.ratios, goal, beside=row.name))


def write(rows: Sequence[Row], path: Path) -> None:
    """The table as Markdown, and all values as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in rows)]
    path.with_suffix(".md").write_text("".join(f"| {' | '.join(cells)} |\n" for cells in lines))
    kept: list[dict[str, Any]] = [asdict(row) | {"ratios": row.ratios, "reached": row.reached} for row in rows]
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
