"""`make bench`: measures what the README and the docs claim, and prints a table. JSON goes to build/bench.json."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.bench import (
    api,
    cli,
    console,
    decisions,
    dispatch,
    fairness,
    footprint,
    history,
    large,
    latency,
    members,
    memory,
    metrics,
    neighbours,
    scroll,
    throughput,
    views,
    words,
)
from tests.bench.report import Report

PARTS = {
    "latency": (latency.measure, 20),
    "throughput": (throughput.measure, 3),
    "footprint": (footprint.measure, 3),
    "members": (members.measure, 3),
    "dispatch": (dispatch.measure, 3),
    "decisions": (decisions.measure, 10),
    "words": (words.measure, 3),
    "neighbours": (neighbours.measure, 1),
    "api": (api.measure, 3),
    "fairness": (fairness.measure, 3),
    "large": (large.measure, 3),
    "memory": (memory.measure, 1),
    "history": (history.measure, 5),
    "metrics": (metrics.measure, 10),
    "cli": (cli.measure, 10),
    "views": (views.measure, 10),
    "console": (console.measure, 5),
    "scroll": (scroll.measure, 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which to run (all)")
    parser.add_argument("--rounds", type=int, help="rounds of each part instead of its own number")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        for name in arguments.parts or PARTS:
            measure, rounds = PARTS[name]
            print(f"measuring {name} …", flush=True)
            measure(report, Path(folder) / name, arguments.rounds or rounds)
            report.write(arguments.json)  # a later part that fails takes nothing with it
    report.show()
    print(f"written to {arguments.json}")


if __name__ == "__main__":
    main()
