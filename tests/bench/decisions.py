"""How long decisions take, from a thousand pending gangs to a million: figures for the report, and a plot.

Each size is measured in a process of its own, so that its memory is its own. A *cold* cycle applies one percent of
changes to a snapshot that nothing was decided on, and decides; *changed* is the same a second time, when everything
else runs already. *final* is with the solver. Where a tenth of the gangs is elastic, each of these may have up to twice
its pods. In an *evicting* cycle a leaf takes back what it is promised. With *racks*, 60 % of the gangs must lie within
one. Beside them stands the time of a plain sort of the same units by the order of their queue: the least that any
decider pays which looks at all of them every time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.report import Figure, Report

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDE = ("--members", "1000", "--nodes", "50000", "--leaves", "1000")
_COLD = {100_000: "p95 ≤ 1", 1_000_000: "≤ 5"}
_LIMIT_S = 1500.0


def measure(report: Report, folder: Path, rounds: int) -> None:
    rows = [_row(size, max(1, rounds if size <= 100_000 else rounds // 5)) for size in SIZES]
    for row in rows:
        name = f"{row['pending']:,} pending"
        times = row["times"]
        goal = _COLD.get(row["pending"], "")
        report.add(Figure(f"{name}: cold cycle, greedy and checked", "s", tuple(times["cold_s"]), goal))
        report.add(Figure("its units sorted, and nothing else", "s", tuple(times["sort_s"]), beside=name))
        if row["pending"] == 100_000:
            report.add(Figure(f"{name}: with 1 % changed", "s", tuple(times["changed_s"]), "≤ 0.3"))
            report.add(Figure(f"{name}: final answer", "s", tuple(times["final_s"]), "≤ 3"))
            gaps = tuple(100 * gap for gap in row["gaps"])
            report.add(Figure(f"{name}: missing to the proven bound, worst band", "%", gaps, "≤ 1"))
            exact = tuple(100.0 * (gap <= 0.1) for gap in gaps)
            report.add(Figure(f"{name}: within 0.1 % of it (100: yes)", "%", exact))
            report.add(Figure(f"{name}: memory", "MiB", (float(row["max_rss_mib"]),), "≤ 1024"))
    wide = _row(10_000, max(1, rounds // 5), *WIDE)
    report.add(
        Figure("10,000 pending, 1,000 leaves, 1,000 × 50 nodes: final", "s", tuple(wide["times"]["final_s"]), "≤ 10")
    )
    elastic = _row(100_000, max(1, rounds // 5), "--elastic", "10")
    for key, what in (("cold_s", "cold cycle"), ("changed_s", "with 1 % changed"), ("final_s", "final answer")):
        report.add(Figure(f"100,000 pending, a tenth of them elastic: {what}", "s", tuple(elastic["times"][key])))
    evicting = _row(100_000, rounds, module="tests.bench.evicting")
    for key, what in (("greedy_s", "greedy and checked"), ("final_s", "final answer")):
        report.add(Figure(f"100,000 pending: evicting cycle, {what}", "s", tuple(evicting["times"][key])))
    for mix, goal in (("mixed", ""), ("whole", "≥ 99"), ("broken", "≥ 97")):
        racks = _row(100_000, max(1, rounds // 5), "--mix", mix, module="tests.bench.racks")
        name = f"100,000 pending, 60 % within racks of 16 nodes, {mix}"
        for key, what in (("greedy_s", "greedy and checked"), ("final_s", "final answer")):
            report.add(Figure(f"{name}: {what}", "s", tuple(racks["times"][key])))
            report.add(Figure("without rules", "s", tuple(racks["times"][f"free_{key}"]), beside=name))
        report.add(Figure(f"{name}: of the proven bound", "%", tuple(100 * part for part in racks["parts"]), goal))
        report.add(Figure(f"{name}: memory", "MiB", (float(racks["max_rss_mib"]),)))
    plot(rows, Path("build/bench-decisions.png"))


def _row(pending: int, runs: int, *fleet: str, module: str = "tests.bench.decide") -> dict[str, Any]:
    command = [sys.executable, "-m", module, str(pending), "--runs", str(runs), "--json", *fleet]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_S)
    row: dict[str, Any] = json.loads(done.stdout)[0]
    return row


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds by number of pending gangs, both on logarithmic axes, with the spread over the rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    sizes = [row["pending"] for row in rows]
    lines = {
        "final_s": "final (CP-SAT, checked)",
        "cold_s": "cold cycle (greedy, checked)",
        "changed_s": "1 % changed",
        "sort_s": "sorting the units only",
    }
    for key, label in lines.items():
        times = [sorted(row["times"][key]) for row in rows]
        middles = [each[len(each) // 2] for each in times]
        spread = (
            [m - t[0] for m, t in zip(middles, times, strict=True)],
            [t[-1] - m for m, t in zip(middles, times, strict=True)],
        )
        axes.errorbar(sizes, middles, yerr=spread, marker="o", capsize=3, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("pending gangs")
    axes.set_ylabel("seconds (median, least and most)")
    axes.set_title("One decision by pending gangs")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"plotted to {path}")
