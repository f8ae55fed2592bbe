"""Figures of one bench run: a table for people, JSON for programs; medians with their spread, never a single number."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured thing: `values` in `unit`; `goal` is what the issue or the docs promise, as text; `beside` names the
    thing it is compared to, measured in the same run."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: str = ""
    beside: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        return percentile(self.values, 0.95)


@dataclass
class Report:
    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def show(self) -> None:
        table = Table(
            title="Fleet bench",
            caption=f"{platform.processor() or platform.machine()}, Python {platform.python_version()}",
        )
        for name in ("what", "n", "min", "median", "p95", "max", "unit", "goal"):
            table.add_column(name, justify="left" if name in ("what", "unit", "goal") else "right")
        for f in self.figures:
            numbers = [f"{value:.3g}" for value in (min(f.values), f.median, f.p95, max(f.values))]
            name = f"  beside: {f.name}" if f.beside else f.name
            table.add_row(name, str(len(f.values)), *numbers, f.unit, f.goal)
        Console().print(table)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(f) | {"median": f.median, "p95": f.p95} for f in self.figures]
        path.write_text(json.dumps({"figures": rows}, indent=1) + "\n")


def percentile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
