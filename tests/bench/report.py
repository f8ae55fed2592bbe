"""Figures of one bench run: a table for people, JSON for programs; medians with their spread, never a single number."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
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
    """`load`: the machine's load average over a minute when the run began; others' work shows there."""

    figures: list[Figure] = field(default_factory=list)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    @property
    def machine(self) -> dict[str, Any]:
        return {
            "cores": os.cpu_count(),
            "load": round(self.load, 2),
            "processor": _processor(),
            "python": platform.python_version(),
        }

    def show(self) -> None:
        machine = self.machine
        table = Table(
            title="Fleet bench",
            box=SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
            caption=f"{machine['cores']} cores ({machine['processor']}), load {machine['load']} at the start, "
            f"Python {machine['python']}",
        )
        for name in ("what", "n", "min", "median", "p95", "max", "unit", "goal"):
            words = name in ("what", "unit", "goal")
            table.add_column(name, justify="left" if words else "right", no_wrap=name != "what")
        for f in self.figures:
            numbers = [f"{value:.3g}" for value in (min(f.values), f.median, f.p95, max(f.values))]
            table.add_row(f"  {f.name}" if f.beside else f.name, str(len(f.values)), *numbers, f.unit, f.goal)
        console = Console()
        if not console.is_terminal:
            console.width = 100
        console.print(table)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(f) | {"median": f.median, "p95": f.p95} for f in self.figures]
        path.write_text(json.dumps({"machine": self.machine, "figures": rows}, indent=1) + "\n")


def say(text: str) -> None:
    """The present step of a long part, for a person who waits."""
    print(f"  {text}", file=sys.stderr, flush=True)


def _processor() -> str:
    """The processor's name; its architecture where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def percentile(values: tuple[float, ...], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
