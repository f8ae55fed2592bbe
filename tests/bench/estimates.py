"""`python -m tests.bench.estimates TRACE`: how often estimated ranges hold the real start, on a replayed trace.

The trace (philly_gang_4vc: submit_s, vc, num_gpu, duration_s) runs through the real decider on members of 8-GPU nodes.
At random decisions a random waiting job is picked, and asked for: with what had happened by then, and nothing else. Its
real start in the replay is then compared with the estimate, and with two naive ones: that it waits as long as its
leaf's jobs did that waited longer than it has until now (their mean; range: their middle four fifths), and that the devices ahead of it in its
leaf are worked off at the pace of the leaf (devices ahead × mean duration / devices that run; range: a third to three
times that). Errors are of the logarithm of the wait that is left, so that 1 h against 2 h counts as much as 1 against 2
days; the pinball loss is the mean over the three quantiles, in the same logarithm.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fleet.foresee.estimate import Estimate, Outcome, Scored, estimate, quantile, stretched
from fleet.foresee.forward import Forward, core
from fleet.foresee.history import History, Past, devices
from fleet.model.amounts import Amounts
from fleet.model.member import Member, Pool
from fleet.model.unit import Component, Phase, Unit
from fleet.quota.tree import QuotaNode, QuotaTree
from fleet.snapshot import Snapshot

GPU = "nvidia.com/gpu"
FLOOR_S = 30.0
Range = tuple[float, float, float]  # p10, p50, p90 of the wait that is left, in seconds


@dataclass(frozen=True, slots=True)
class Job:
    unit: Unit
    duration_s: float


@dataclass(frozen=True, slots=True)
class Point:
    """A waiting unit at one time of the replay."""

    snapshot: Snapshot
    at: float
    unit: str


def read(path: Path, skip: int, most: int) -> list[Job]:
    text = path.read_bytes()
    lines = (lzma.decompress(text) if path.suffix == ".xz" else text).decode().splitlines()
    rows = list(csv.DictReader(lines))[skip : skip + most]
    jobs = []
    for number, row in enumerate(rows):
        gpus = int(row["num_gpu"])
        pods, each = (gpus // 8, 8) if gpus >= 8 else (1, gpus)
        component = Component("worker", pods, Amounts.of({GPU: each, "pods": 1}))
        name = f"{row['vc']}/j{number:06}"
        unit = Unit(name, name, (component,), leaf=f"root/{row['vc']}", enqueued_at=float(row["submit_s"]))
        jobs.append(Job(unit, max(1.0, float(row["duration_s"]))))
    return jobs


def fleet_of(jobs: Iterable[Job], members: int, nodes: int) -> Snapshot:
    """Members of 8-GPU nodes, and a tree that promises every leaf the same."""
    leaves = sorted({job.unit.leaf or "" for job in jobs})
    each = members * nodes * 8 // len(leaves)
    tree = {"root": QuotaNode("root", "root", None, children=tuple(leaves))}
    tree |= {leaf: QuotaNode(leaf, leaf.rpartition("/")[2], "root", min={GPU: each}) for leaf in leaves}
    node = Amounts.of({GPU: 8, "pods": 110})
    made = [Member(f"m{number}", pools=(Pool(free=((node, nodes),), allocatable=node),)) for number in range(members)]
    return Snapshot.of(members=made, tree=QuotaTree("root", tree))


def replay(jobs: Sequence[Job], empty: Snapshot, points: int, rng: Random) -> tuple[list[Point], Forward]:
    """The run of the whole trace, and points of it: each decision after the first tenth is as likely as another."""
    lasts = {job.unit.id: job.duration_s for job in jobs}
    run = Forward(
        empty, now=0.0, decider=core(0), runs_s=lambda unit, _: lasts[unit.id], cycle_s=30.0, tick_s=600.0,
        gangs=[job.unit for job in jobs],
    )  # fmt: skip
    for job in jobs:
        run.submit(job.unit.enqueued_at, job.unit)
    kept: list[Point] = []
    seen = 0
    first = jobs[len(jobs) // 10].unit.enqueued_at  # before it nobody knows much
    for _ in run.steps(most_events=100 * len(jobs), until=math.inf):
        if run.waiting and first < run.now < jobs[-1].unit.enqueued_at:
            seen += 1  # a reservoir
            at = len(kept) if len(kept) < points else rng.randrange(seen)
            if at < points:
                point = Point(run.snapshot(), run.now, rng.choice(sorted(run.waiting)))
                kept[at : at + 1] = [point]
    return sorted(kept, key=lambda point: point.at), run


def history_at(jobs: Sequence[Job], started: dict[str, float], now: float) -> History:
    pasts = []
    for job in jobs:
        start = started.get(job.unit.id)
        pasts.append(Past(job.unit, job.unit.enqueued_at, start, None if start is None else start + job.duration_s))
    return History(
        (
            Past(
                past.unit, past.submitted,
                past.started if past.started is not None and past.started <= now else None,
                past.ended if past.ended is not None and past.ended <= now else None,
            )
            for past in pasts
        ),
        now,
    )  # fmt: skip


def as_the_leaf_has_waited(point: Point, history: History) -> Range:
    unit = point.snapshot.units[point.unit]
    waits = [past.waited_s for past in history.pasts if past.unit.leaf == unit.leaf]
    so_far = point.at - unit.enqueued_at
    longer = sorted(wait - so_far for wait in waits if wait is not None and wait > so_far) or [so_far]
    return quantile(longer, 0.1), statistics.fmean(longer), quantile(longer, 0.9)


def as_the_leaf_works_off(point: Point, history: History) -> Range:
    mine = point.snapshot.units[point.unit]
    leaf = [unit for unit in point.snapshot.units.values() if unit.leaf == mine.leaf]
    ahead = sum(devices(u) for u in leaf if u.phase is Phase.WAITING and u.enqueued_at < mine.enqueued_at)
    running = sum(devices(unit) for unit in leaf if unit.phase is not Phase.WAITING)
    ended = [
        past.ended - past.started
        for past in history.pasts
        if past.unit.leaf == mine.leaf and past.ended is not None and past.started is not None
    ]
    mean = statistics.fmean(ended) if ended else 3600.0
    wait = (ahead + devices(mine)) * mean / max(1, running)
    return wait / 3, wait, wait * 3


def as_estimated(said: Outcome, at: float) -> Range | None:
    if not isinstance(said, Estimate):
        return None
    return said.p10 - at, said.p50 - at, math.inf if said.p90 is None else said.p90 - at


def log_of(wait_s: float) -> float:
    return math.log(min(max(0.0, wait_s), 90 * 86400.0) + FLOOR_S)


def pinball(real_s: float, said: Range) -> float:
    losses = []
    for share, at in zip((0.1, 0.5, 0.9), said, strict=True):
        off = log_of(real_s) - log_of(at)
        losses.append(off * share if off >= 0 else -off * (1 - share))
    return statistics.fmean(losses)


def summary(said: Sequence[tuple[float, Range]]) -> dict[str, float]:
    """Of pairs (real wait left, what was said)."""
    if not said:
        return {}
    log_width = statistics.fmean(log_of(high) - log_of(low) for _, (low, _, high) in said)
    return {
        "points": len(said),
        "held": round(sum(low - 1 <= real <= high + 1 for real, (low, _, high) in said) / len(said), 4),
        "below": round(sum(real < low - 1 for real, (low, _, _) in said) / len(said), 4),
        "above": round(sum(real > high + 1 for real, (_, _, high) in said) / len(said), 4),
        "mean_abs_log_error": round(statistics.fmean(abs(log_of(r) - log_of(s[1])) for r, s in said), 4),
        "mean_abs_error_h": round(statistics.fmean(abs(r - s[1]) for r, s in said) / 3600, 3),
        "pinball": round(statistics.fmean(pinball(r, s) for r, s in said), 4),
        "mean_range_factor": round(math.exp(log_width), 2),
    }


def measure(
    jobs: Sequence[Job], empty: Snapshot, points: int, samples: int, seed: int, shown: Callable[[str], None]
) -> dict[str, object]:
    chosen, run = replay(jobs, empty, points, Random(seed))
    waits = [run.started[job.unit.id] - job.unit.enqueued_at for job in jobs if job.unit.id in run.started]
    shown(f"replayed {len(waits)} jobs, mean wait {statistics.fmean(waits) / 3600:.2f} h; {len(chosen)} points")
    rows: dict[str, list[tuple[float, Range]]] = {name: [] for name in ("raw", "stretched", "waited", "worked off")}
    scored: list[tuple[float, Scored]] = []
    others: dict[str, int] = {}
    took: list[float] = []
    for number, point in enumerate(chosen, 1):
        history = history_at(jobs, run.started, point.at)
        real = run.started[point.unit] - point.at
        begun = time.perf_counter()
        said = estimate(point.snapshot, point.unit, history, now=point.at, seed=seed, samples=samples)
        took.append(time.perf_counter() - begun)
        raw = as_estimated(said, point.at)
        if raw is None or not isinstance(said, Estimate):
            others[type(said).__name__] = others.get(type(said).__name__, 0) + 1
            continue
        known = [score.score for when, score in scored if when <= point.at]
        better = as_estimated(stretched(said, point.at, known), point.at)
        scored.append((run.started[point.unit], Scored(said, point.at, run.started[point.unit])))
        scored.sort(key=lambda entry: entry[0])
        rows["raw"].append((real, raw))
        if better is not None and len(known) >= 20:
            rows["stretched"].append((real, better))
        rows["waited"].append((real, as_the_leaf_has_waited(point, history)))
        rows["worked off"].append((real, as_the_leaf_works_off(point, history)))
        if number % 20 == 0:
            shown(f"{number}: raw {summary(rows['raw'])}")
    return {
        "jobs": len(jobs), "samples": samples, "seed": seed,
        "mean_wait_h": round(statistics.fmean(waits) / 3600, 3),
        "seconds_an_estimate": {"mean": round(statistics.fmean(took), 2), "max": round(max(took), 2)} if took else {},
        "not_estimates": others,
        **{name: summary(said) for name, said in rows.items()},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="jobs at the beginning of the trace to leave out")
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=12, help="of 8 GPUs, in each member")
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    jobs = read(given.trace, given.skip, given.jobs)
    found = measure(
        jobs, fleet_of(jobs, given.members, given.nodes), given.points, given.samples, given.seed,
        lambda line: print(line, file=sys.stderr, flush=True),
    )  # fmt: skip
    print(json.dumps(found, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
