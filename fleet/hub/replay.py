"""`fleet replay`: a workload trace through the decider, or through what people do without it, on a clock of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure
from fleet.hub import replay_options as given
from fleet.values.untyped import digits

if TYPE_CHECKING:
    from fleet.core.snapshot import Config
    from fleet.simulate.replay.policies import Policy
    from fleet.simulate.replay.study import Study

_TIME = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def replay(
    trace: given.Trace,
    nodes: given.Nodes,
    members: given.Members = 8,
    policy: given.Policies = None,
    load: given.Load = 1.0,
    calibrate_wait: given.CalibrateWait = "",
    begin: given.Begin = "0",
    until: given.Until = "",
    limit: given.Limit = 0,
    guarantee: given.Guarantee = 0.7,
    least: given.Least = None,
    most: given.Most = None,
    weight: given.Weight = None,
    full: given.Full = False,
    solver: given.UseSolver = False,
    reclaim: given.Reclaim = True,
    heads_after: given.HeadsAfter = "10m",
    guarantee_delay: given.GuaranteeDelay = "",
    protection: given.Protection = "5m",
    overestimate: given.Overestimate = 2.0,
    checkpoint: given.Checkpoint = "1h",
    cycle: given.Cycle = "30s",
    grace: given.Grace = "30s",
    jitter: given.Jitter = "10m",
    seed: given.Seed = 0,
    seeds: given.Seeds = 1,
    out: given.Out = None,
    as_json: given.AsJson = False,
) -> None:
    """Replay a workload trace: waits, use, promises, lost work.

    Nothing runs: nodes and time are simulated. Policies: fleet, the decisions of the real core; fifo, one queue in
    order of arrival; fifo-backfill, the same with EASY backfill; race, a copy of each job in every member.
    A LEAF is a queue of the trace. TIME is a number of seconds, or one with a unit: 30s, 10m, 4h, 1.5d.
    """
    from fleet.cli import optional
    from fleet.simulate.replay.run import Options
    from fleet.simulate.replay.study import Study
    from fleet.simulate.replay.world import Arrivals, Quota

    if out is not None:
        optional.need_plots("--out", optional.HUB)
    study = Study(
        trace,
        nodes,
        members,
        _policies(policy or ["fleet"]),
        tuple(range(seed, seed + seeds)),
        begin_s=_seconds("--from", begin),
        until_s=_seconds_or_none("--until", until),
        limit=limit,
        arrivals=Arrivals(load, _seconds("--jitter", jitter), overestimate or None),
        quota=Quota(guarantee, _amounts("--min", least), _amounts("--max", most), _amounts("--weight", weight)),
        options=Options(
            config=_config(reclaim, protection, heads_after, guarantee_delay),
            cycle_s=max(1.0, _seconds("--cycle", cycle)),
            grace_s=_seconds("--grace", grace),
            checkpoint_s=_seconds("--checkpoint", checkpoint),
        ),
        calibrate_wait_s=_seconds_or_none("--calibrate-wait", calibrate_wait),
        full=full,
        out=out,
    )
    document = _run(study, solver=solver)
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document)


def _policies(names: list[str]) -> tuple[Policy, ...]:
    """Each named policy once, in the order of the names."""
    from fleet.simulate.replay.policies import Policy

    unknown = next((name for name in names if name not in list(Policy)), None)
    if unknown is not None:
        raise Failure(f"--policy: {unknown!r} is none of {', '.join(Policy)}")
    return tuple(Policy(name) for name in dict.fromkeys(names))


def _config(reclaim: bool, protection: str, heads_after: str, guarantee_delay: str) -> Config:
    from fleet.core.snapshot import Config

    return Config(
        reclaim=reclaim,
        protection_s=_seconds("--protection", protection),
        head_after_s=_seconds("--heads-after", heads_after),
        guarantee_delay_s=_seconds_or_none("--guarantee-delay", guarantee_delay),
    )


def _run(study: Study, *, solver: bool) -> dict[str, Any]:
    """The document of all runs. Raises Failure for a trace that makes no sense, and where nothing can be written."""
    from fleet.simulate.replay.study import run_all
    from fleet.simulate.replay.table import BadTrace

    if study.full:
        _quiet()
    try:
        with _progress() as tell:
            return run_all(study, _solver() if solver else None, tell)
    except BadTrace as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"cannot write to {study.out}: {error.strerror or error}") from error


def _quiet() -> None:
    """The controllers log their work; here only failures are of interest."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _solver() -> Any:
    from fleet.core.solver.cpsat import CpSat

    return CpSat()


def _seconds(option: str, text: str) -> float:
    found = _TIME.match(text)
    if found is None or len(text) > 20:
        raise Failure(f"{option}: {text!r} is not a time such as 30s, 10m, 4h or 1.5d")
    return float(found[1]) * _SECONDS[found[2]]


def _seconds_or_none(option: str, text: str) -> float | None:
    return _seconds(option, text) if text else None


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

    from fleet.amc.terminal import own

    columns = (TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=own(sys.stderr)), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, ended, jobs: bar.update(task, description=what, completed=ended, total=jobs)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _seeds(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def _show(document: dict[str, Any]) -> None:
    from fleet.amc import table

    world = document["world"]
    print(
        f"{_many(world['jobs'], 'job')}, {_many(world['nodes'], 'node')} with {_many(world['gpus'], 'GPU')}"
        f" in {_many(world['members'], 'member')}, load {world['load']:g},"
        f" {_seeds(world['seeds'])}"
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
            print(f"{name}: {_many(number, 'decision')}, {1000 * mean:.3g} ms on average, {1000 * most:.3g} ms at most")
        stopped = ", ".join(sorted({run["stopped"] for run in runs} - {"DONE"}))
        never, jobs = (sum(run[what] for run in runs) for what in ("never_started", "jobs"))
        if never:
            print(f"{name}: {never} of {_many(jobs, 'job')} never started, and {_are(never)} in no figure ({stopped})")
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
