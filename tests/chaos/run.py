"""`make chaos`: kills, stops, cuts and floods a hub from a seed, and judges it from outside (tests/chaos/README.md)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.bench.report import Report
from tests.chaos.harness import Harness, Result
from tests.chaos.plan import KILLED

GOAL_S = 5.0  # p95 after a kill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the faults and the jobs (1)")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--members", type=int, default=5, help="simulated ones (5)")
    parser.add_argument("--real", type=int, default=0, help="real members of the test bed besides (0)")
    parser.add_argument("--minutes", type=float, default=120.0, help="no fault begins later (120)")
    parser.add_argument("--only", nargs="+", choices=KILLED, default=(), help="kill these alone, and nothing else")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"), help="logs and findings go to FOLDER/SEED")
    parser.add_argument("--json", type=Path, default=Path("build/chaos.json"), help="where the figures go")
    given = parser.parse_args()
    began = time.monotonic()
    folder = (given.folder / str(given.seed)).absolute()
    harness = Harness(
        folder,
        seed=given.seed,
        jobs=given.jobs,
        kills=given.kills,
        members=given.members,
        real=given.real,
        minutes=given.minutes,
        only=given.only,
        say=lambda text: print(f"[{time.monotonic() - began:6.0f} s] {text}", file=sys.stderr, flush=True),
    )
    report = Report()
    result = harness.run()
    if not result.findings:
        shutil.rmtree(folder / "hub", ignore_errors=True)  # the logs stay
    show(result)
    write(result, report.machine, given.json)
    print(f"written to {given.json}; logs in {folder}")
    sys.exit(1 if result.findings else 0)


def show(result: Result) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 100
    console.print(_counts(result))
    console.print(_times(result))
    for finding in result.findings:
        console.print(f"{finding['rule']} {finding['about']} at {finding['at_s']} s: {finding['text']}", markup=False)
    console.print(f"{len(result.findings)} violations")


def _counts(result: Result) -> Table:
    table = Table(
        title=f"Faults of seed {result.seed}, {result.members} simulated and {result.real} real members",
        box=SIMPLE_HEAD,
    )
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("asked", justify="right")
    for name, value in result.figures.items():
        for row, count in (
            {f"  {k}": v for k, v in value.items()}.items() if isinstance(value, dict) else [(name, value)]
        ):
            table.add_row(row, str(count), f"{result.asked[row]:g}" if row in result.asked else "")
    for name, count in sorted(result.faults.items()):
        table.add_row(f"  {name}", str(count), "")
    return table


def _times(result: Result) -> Table:
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    table = Table(title="In step again, in seconds", box=SIMPLE_HEAD, caption=f"load of the machine {load}")
    for name in ("after", "n", "p50", "p95", "max", "goal"):
        table.add_column(name, justify="left" if name in ("after", "goal") else "right")
    rows = {"every kill": result.after_kills, **{name: tuple(each) for name, each in sorted(result.in_step_s.items())}}
    for name, values in rows.items():
        if values:
            numbers = [f"{each:.2f}" for each in (result.median(values), result.p95(values), max(values))]
            table.add_row(name, str(len(values)), *numbers, f"p95 ≤ {GOAL_S:g} s" if name == "every kill" else "")
    return table


def write(result: Result, machine: dict[str, Any], path: Path) -> None:
    kills = result.after_kills
    summary = {"p50": result.median(kills), "p95": result.p95(kills), "max": max(kills, default=0.0)} if kills else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"machine": machine, "in_step_after_kills_s": summary, **asdict(result)}
    path.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
