"""The options of `fleet replay`, with their help; replay.py has their defaults, in the order of the help page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SEEDS_MAX = 1000

Trace = Annotated[Path, typer.Argument(help="Jobs: CSV, plain or as .xz or .gz.")]
Nodes = Annotated[Path, typer.Option(help="Nodes: CSV with cpu_milli, memory_mib, gpu and model.")]
Members = Annotated[int, typer.Option(min=1, max=1000, help="Members that the nodes are dealt to.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="The policy that decides (fleet). Several times: the first is compared with the others."
    ),
]
Load = Annotated[float, typer.Option(min=0.001, max=1000, help="Jobs come so many times as fast as in the trace.")]
CalibrateWait = Annotated[
    str, typer.Option(metavar="TIME", help="Find the load at which fifo's mean wait is so long (4h), and use it.")
]
Begin = Annotated[
    str, typer.Option("--from", metavar="TIME", help="Leave out jobs submitted earlier in the trace (10d).")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Leave out jobs submitted from then on in the trace.")]
Limit = Annotated[int, typer.Option(min=0, help="The first so many jobs only (0: all).")]
Guarantee = Annotated[
    float, typer.Option(min=0, max=1, help="Part of the GPUs that queues are promised, each as it asks.")
]
Least = Annotated[list[str] | None, typer.Option("--min", metavar="LEAF=GPUS", help="The promise of a queue, instead.")]
Most = Annotated[list[str] | None, typer.Option("--max", metavar="LEAF=GPUS", help="The most that a queue may use.")]
Weight = Annotated[list[str] | None, typer.Option(metavar="LEAF=N", help="A queue's weight in the fair share.")]
Full = Annotated[
    bool, typer.Option("--full", help="The policy fleet through the real controllers: for some hundred jobs.")
]
UseSolver = Annotated[bool, typer.Option("--solver/--no-solver", help="Whether fleet asks the solver.")]
Reclaim = Annotated[
    bool, typer.Option("--reclaim/--no-reclaim", help="Whether fleet takes back what is borrowed, by evicting.")
]
HeadsAfter = Annotated[
    str, typer.Option(metavar="TIME", help="A job that waits longer gets a reservation that collects room (0: never).")
]
GuaranteeDelay = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Jobs within the min of other queues wait so long for a job that has waited too long (as --heads-after).",
    ),
]
Protection = Annotated[str, typer.Option(metavar="TIME", help="No job is evicted so soon after its start.")]
Overestimate = Annotated[
    float, typer.Option(min=0, max=1000, help="Walltimes are the true durations times this (0: none is given).")
]
Checkpoint = Annotated[str, typer.Option(metavar="TIME", help="How often a running job keeps its work (0: never).")]
Cycle = Annotated[str, typer.Option(metavar="TIME", help="Decisions are so far apart at least.")]
Grace = Annotated[str, typer.Option(metavar="TIME", help="An evicted job is gone after so long.")]
Jitter = Annotated[str, typer.Option(metavar="TIME", help="The seed shifts every arrival by up to this.")]
Seed = Annotated[int, typer.Option(help="The first seed.")]
Seeds = Annotated[int, typer.Option(min=1, max=SEEDS_MAX, help="So many seeds, one after the other.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Write plots and replay.json there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
