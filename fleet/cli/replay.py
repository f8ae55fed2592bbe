"""`fleet replay`: a workload trace through the decider, or through what people do without it, on a clock of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.model.untyped import digits

_TIME = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SEEDS_MAX = 1000


def replay(
    trace: Annotated[Path, typer.Argument(help="Jobs: CSV, plain or as .xz or .gz.")],
    nodes: Annotated[Path, typer.Option(help="Nodes: CSV with cpu_milli, memory_mib, gpu and model.")],
    members: Annotated[int, typer.Option(min=1, max=1000, help="Members that the nodes are dealt to.")] = 8,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="The policy that decides (fleet). Several times: the first is compared with the others.",
        ),
    ] = None,
    load: Annotated[
        float, typer.Option(min=0.001, max=1000, help="Jobs come so many times as fast as in the trace.")
    ] = 1.0,
    calibrate_wait: Annotated[
        str, typer.Option(metavar="TIME", help="Find the load at which fifo's mean wait is so long (4h), and use it.")
    ] = "",
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Leave out jobs submitted earlier in the trace (10d).")
    ] = "0",
    until: Annotated[
        str, typer.Option(metavar="TIME", help="Leave out jobs submitted from then on in the trace.")
    ] = "",
    limit: Annotated[int, typer.Option(min=0, help="The first so many jobs only (0: all).")] = 0,
    guarantee: Annotated[
        float, typer.Option(min=0, max=1, help="Part of the GPUs that queues are promised, each as it asks.")
    ] = 0.7,
    least: Annotated[
        list[str] | None, typer.Option("--min", metavar="LEAF=GPUS", help="The promise of a queue, instead.")
    ] = None,
    most: Annotated[
        list[str] | None, typer.Option("--max", metavar="LEAF=GPUS", help="The most that a queue may use.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="LEAF=N", help="A queue's weight in the fair share.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The policy fleet through the real controllers: for some hundred jobs.")
    ] = False,
    solver: Annotated[bool, typer.Option("--solver/--no-solver", help="Whether fleet asks the solver.")] = False,
    reclaim: Annotated[
        bool, typer.Option("--reclaim/--no-reclaim", help="Whether fleet takes back what is borrowed, by evicting.")
    ] = True,
    heads_after: Annotated[
        str,
        typer.Option(metavar="TIME", help="A job that waits longer gets a reservation that collects room (0: never)."),
    ] = "10m",
    guarantee_delay: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Guaranteed jobs of other leaves wait so long for an overdue head (as --heads-after)."
        ),
    ] = "",
    protection: Annotated[str, typer.Option(metavar="TIME", help="Nobody is evicted so soon after its start.")] = "5m",
    overestimate: Annotated[
        float, typer.Option(min=0, max=1000, help="Walltimes are the true durations times this (0: none is given).")
    ] = 2.0,
    checkpoint: Annotated[
        str, typer.Option(metavar="TIME", help="How often a running job keeps its work (0: never).")
    ] = "1h",
    cycle: Annotated[str, typer.Option(metavar="TIME", help="Decisions are so far apart at least.")] = "30s",
    grace: Annotated[str, typer.Option(metavar="TIME", help="An evicted job is gone after so long.")] = "30s",
    jitter: Annotated[str, typer.Option(metavar="TIME", help="The seed shifts every arrival by up to this.")] = "10m",
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=_SEEDS_MAX, help="So many seeds, one after the other.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write plots and replay.json there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a workload trace: waits, use, promises, lost work.

    Nothing runs: nodes and time are simulated. Policies: fleet, the decisions of the real core; fifo, one queue in
    order of arrival; fifo-backfill, the same with EASY backfill; race, a copy of each job in every member.
    A LEAF is a queue of the trace. TIME is a number of seconds, or one with a unit: 30s, 10m, 4h, 1.5d.
    """
    from fleet.simulate.replay.policies import Policy
    from fleet.simulate.replay.run import Options
    from fleet.simulate.replay.study import Study, run_all
    from fleet.simulate.replay.table import BadTrace
    from fleet.simulate.replay.world import Arrivals, Quota
    from fleet.snapshot import Config

    policies: list[Policy] = []
    for name in policy or ["fleet"]:
        if name not in list(Policy):
            raise Failure(f"--policy: {name!r} is none of {', '.join(Policy)}")
        if name not in policies:
            policies.append(Policy(name))
    study = Study(
        trace=trace,
        nodes=nodes,
        members=members,
        policies=tuple(policies),
        seeds=tuple(range(seed, seed + seeds)),
        begin_s=_seconds("--from", begin),
        until_s=_seconds("--until", until) if until else None,
        limit=limit,
        arrivals=Arrivals(load, _seconds("--jitter", jitter), overestimate or None),
        quota=Quota(guarantee, _amounts("--min", least), _amounts("--max", most), _amounts("--weight", weight)),
        options=Options(
            config=Config(
                reclaim=reclaim,
                protection_s=_seconds("--protection", protection),
                head_after_s=_seconds("--heads-after", heads_after),
                guarantee_delay_s=_seconds("--guarantee-delay", guarantee_delay) if guarantee_delay else None,
            ),
            cycle_s=max(1.0, _seconds("--cycle", cycle)),
            grace_s=_seconds("--grace", grace),
            checkpoint_s=_seconds("--checkpoint", checkpoint),
        ),
        calibrate_wait_s=_seconds("--calibrate-wait", calibrate_wait) if calibrate_wait else None,
        full=full,
        out=out,
    )
    if full:
        _quiet()
    try:
        with _progress() as tell:
            document = run_all(study, _solver() if solver else None, tell)
    except BadTrace as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"cannot write to {out}: {error.strerror or error}") from error
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document)


def _quiet() -> None:
    """The controllers tell what they do; here only what goes wrong is of interest."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _solver() -> Any:
    from fleet.solver.cpsat import CpSat

    return CpSat()


def _seconds(option: str, text: str) -> float:
    found = _TIME.match(text)
    if found is None or len(text) > 20:
        raise Failure(f"{option}: {text!r} is not a time such as 30s, 10m, 4h or 1.5d")
    return float(found[1]) * _SECONDS[found[2]]


def _amounts(option: str, given: list[str] | None) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for text in given or ():
        leaf, _, said = text.rpartition("=")
        amount = digits(said, 12)
        if not leaf or amount is None:
            raise Failure(f"{option}: {text!r} is not LEAF=NUMBER")
        amounts[leaf] = amount
    return amounts


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Tells a terminal, and nothing else, how far it is: (what is going on, jobs that have ended, jobs)."""
    if not sys.stderr.isatty():
        yield lambda what, ended, jobs: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, ended, jobs: bar.update(task, description=what, completed=ended, total=jobs)


def _show(document: dict[str, Any]) -> None:
    from fleet.amc import table

    world = document["world"]
    print(
        f"{world['jobs']} jobs, {world['nodes']} nodes with {world['gpus']} GPUs in {world['members']} members, "
        f"load {world['load']:g}, seeds {world['seeds'][0]} to {world['seeds'][-1]}"
    )
    names = list(document["summary"])
    rows: list[list[str]] = [["FIGURE", *(name.upper() for name in names)]]
    for figure in document["summary"][names[0]]:
        rows.append([figure, *(_interval(figure, document["summary"][name].get(figure)) for name in names)])
    sys.stdout.writelines(line.rstrip() + "\n" for line in table.lines(rows))
    for pair, every in document["differences"].items():
        print(f"mean wait, {pair}: {_interval('wait_s.mean', every['wait_s.mean'])}")
    for name, runs in document["runs"].items():
        times = [run["timing"]["decision_s"] for run in runs if run["timing"]["decision_s"]["n"]]
        if times:
            number = sum(one["n"] for one in times)
            mean = sum(one["n"] * one["mean"] for one in times) / number
            most = max(one["max"] for one in times)
            print(f"{name}: {number} decisions, {1000 * mean:.3g} ms on average, {1000 * most:.3g} ms at most")
        stopped = ", ".join(sorted({run["stopped"] for run in runs} - {"DONE"}))
        never, jobs = (sum(run[what] for run in runs) for what in ("never_started", "jobs"))
        if never:
            print(f"{name}: {never} of {jobs} jobs never started, and are in no figure ({stopped})")
        elif stopped:
            print(f"{name}: stopped early: {stopped}")
    for path in document["written"]:
        print(f"wrote {path}")


def _interval(figure: str, of: dict[str, float] | None) -> str:
    if of is None:
        return "-"
    return " ± ".join(_text(figure, of[part]) for part in ("mean", "plus_minus") if part in of)


def _text(figure: str, value: float) -> str:
    """Times in the unit that people would use, shares in percent."""
    if figure in ("allocated", "fragmentation", "unmet.largest_share"):
        return f"{100 * value:.1f} %"
    if "_s" not in figure:
        return f"{value:,.4g}"
    for unit, seconds in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if abs(value) >= 2 * seconds:
            return f"{value / seconds:.1f} {unit}"
    return f"{value:.0f} s"
