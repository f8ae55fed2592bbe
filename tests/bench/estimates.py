"""`python -m tests.bench.estimates TRACE`: how often estimated ranges hold the real start, on a replayed trace.

The trace runs through the real decider, without walltimes: on the nodes of a file, else on nodes of 8 GPUs. At random
decisions a random waiting job is picked, and its start is estimated from what had happened by then, and nothing else.
Its real start in the replay is then compared with the estimate, and with two naive ones: that it waits as long as its
leaf's jobs did that waited longer than it has until now (their mean; range: their middle four fifths), and that the
devices ahead of it in its leaf are worked off at the pace of the leaf (devices ahead x mean duration / devices that
run; range: a third to three times that).

Errors are of the logarithm of the wait that is left, so that 1 h against 2 h counts as much as 1 against 2 days; the
pinball loss is the mean over the three quantiles, in the same logarithm. Random decisions fall into busy times, and
random waiting jobs are those that wait long: the figures are of the jobs that somebody would ask for. The times are
asked about in an order that is spread over the replay, so that what is stopped early is of all of it, too.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from fleet.core.foresee.estimate import Estimate, Outcome, ScoredEstimate, estimates, of_runs, stretched
from fleet.core.foresee.forward import Forward, UnitEventKind, core
from fleet.core.foresee.history import History, PastUnit, devices
from fleet.core.foresee.quantiles import quantile
from fleet.core.model.amounts import Amounts
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Config, Snapshot
from fleet.simulate.replay.trace import GPU, TraceJob, read
from fleet.simulate.replay.world import ZERO, Arrivals, Quota, WorldNode, read_nodes, split, tree, units

FLOOR_S = 30.0
SCORES_LEAST = 20
GOLDEN = 0.6180339887498949
Range = tuple[float, float, float]  # p10, p50, p90 of the wait that is left, in seconds


@dataclass(frozen=True, slots=True)
class Point:
    """A waiting unit at one time of the replay. Those of one time have the same snapshot."""

    snapshot: Snapshot
    at: float
    unit: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happened in the replay: every unit, its first start, and its end."""

    units: Sequence[Unit]
    started: dict[str, float]
    ended: dict[str, float]

    def history(self, now: float) -> History:
        """What was known by then."""
        pasts = []
        for unit in self.units:
            start, end = self.started.get(unit.id, math.inf), self.ended.get(unit.id, math.inf)
            known = PastUnit(unit, unit.enqueued_at, start if start <= now else None, end if end <= now else None)
            pasts.append(known)
        return History(pasts, now)


def replay(
    jobs: Sequence[TraceJob], arriving: Sequence[Unit], empty: Snapshot, times: int, each: int, rng: Random
) -> tuple[list[list[Point]], Truth]:
    """The run of the whole trace, and points of it: so many times, each decision after the first tenth as likely as
    another, and `each` waiting units of each time."""
    lasts = {job.id: job.duration_s for job in jobs}
    run = Forward(
        empty,
        now=ZERO,
        decider=core(0),
        runs_s=lambda unit, _: lasts[unit.id],
        cycle_s=30.0,
        tick_s=300.0,
        gangs=arriving,
    )
    for unit in arriving:
        run.submit(unit.enqueued_at, unit)
    kept: list[list[Point]] = []
    seen = 0
    first = arriving[len(jobs) // 10].enqueued_at  # before it nobody knows much
    last = arriving[-1].enqueued_at
    for _ in run.steps(most_events=400 * len(jobs), until=math.inf):
        waiting = [key for key in run.waiting if key not in run.started]
        if waiting and first < run.now < last:
            seen += 1  # a reservoir
            at = len(kept) if len(kept) < times else rng.randrange(seen)
            if at < times:
                chosen = rng.sample(sorted(waiting), min(each, len(waiting)))
                kept[at : at + 1] = [[Point(run.snapshot(), run.now, unit) for unit in chosen]]
    ended = {event.unit: event.at for event in run.log if event.what is UnitEventKind.ENDED}
    return sorted(kept, key=lambda points: points[0].at), Truth(arriving, run.started, ended)


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What was said of the points of one time; `runs`: when units started in each run."""

    points: Sequence[Point]
    said: Mapping[str, Outcome]
    runs: Sequence[Mapping[str, float]]


def spread(count: int) -> list[int]:
    """0 to count - 1 in an order of which every beginning is spread over all of them."""
    return sorted(range(count), key=lambda number: number * GOLDEN % 1.0)


def measure(
    jobs: Sequence[TraceJob],
    arriving: Sequence[Unit],
    empty: Snapshot,
    times: int,
    each: int,
    samples: int,
    fewer: Sequence[int],
    seed: int,
    minutes: float,
    shown: Callable[[str], None],
) -> dict[str, object]:
    """All figures; `shown` is told how far it is. `fewer`: of so many runs, the first, ranges are made too. After
    `minutes` no further time is asked about."""
    ends = time.monotonic() + 60.0 * minutes
    chosen, truth = replay(jobs, arriving, empty, times, each, Random(seed))
    waits = [truth.started[unit.id] - unit.enqueued_at for unit in arriving if unit.id in truth.started]
    shown(f"replayed {len(waits)} jobs, mean wait {statistics.fmean(waits) / 3600:.2f} h; {len(chosen)} times")
    asked: list[Asked] = []
    took: list[float] = []
    for number in spread(len(chosen)):
        if time.monotonic() > ends:
            break
        points = chosen[number]
        runs: list[Mapping[str, float]] = []
        begun = time.process_time()
        said = estimates(
            points[0].snapshot,
            [point.unit for point in points],
            truth.history(points[0].at),
            now=points[0].at,
            seed=seed,
            samples=samples,
            on_run=runs.append,
        )
        took.append(time.process_time() - begun)
        asked.append(Asked(points, said, runs))
        shown(f"{len(asked)} times: " + json.dumps(figures(asked, truth, samples, fewer)["raw"]))
    return {
        "jobs": len(jobs),
        "samples": samples,
        "seed": seed,
        "times": len(asked),
        "times_chosen": len(chosen),
        "mean_wait_h": round(statistics.fmean(waits) / 3600, 3),
        "processor_seconds_a_time": {"mean": round(statistics.fmean(took), 2), "max": round(max(took), 2)},
        **figures(asked, truth, samples, fewer),
    }


def figures(asked: Sequence[Asked], truth: Truth, samples: int, fewer: Sequence[int]) -> dict[str, object]:
    """How well each kind of estimate did, and every point; what is stretched by earlier ones by those of them whose
    units had started by then."""
    few = {number: f"of {number} runs" for number in fewer if number < samples}
    rows: dict[str, list[tuple[float, Range]]] = {
        name: [] for name in ("raw", *few.values(), "stretched", "waited", "worked off")
    }
    scored: list[ScoredEstimate] = []
    kept: list[dict[str, object]] = []
    others: dict[str, int] = {}
    for one in sorted(asked, key=lambda one: one.points[0].at):
        at = one.points[0].at
        history = truth.history(at)
        scores = [score.score for score in scored if score.started <= at]
        for point in one.points:
            outcome, start = one.said[point.unit], truth.started[point.unit]
            raw, real = as_estimated(outcome, at), start - at
            if raw is None or not isinstance(outcome, Estimate):
                others[type(outcome).__name__] = others.get(type(outcome).__name__, 0) + 1
                continue
            better = as_estimated(stretched(outcome, at, scores), at)
            if outcome.samples > 1:
                scored.append(ScoredEstimate(outcome, at, start))
            starts = [run.get(point.unit, math.inf) for run in one.runs]
            written = [None if math.isinf(start) else start for start in starts]
            kept.append({"at": at, "unit": point.unit, "started": start, "said": asdict(outcome), "runs": written})
            rows["raw"].append((real, raw))
            for count, name in few.items():
                less = as_estimated(of_runs(starts[:count], at), at) if outcome.samples > 1 else raw
                if less is not None:
                    rows[name].append((real, less))
            if better is not None and len(scores) >= SCORES_LEAST:
                rows["stretched"].append((real, better))
            rows["waited"].append((real, as_the_leaf_has_waited(point, history)))
            rows["worked off"].append((real, as_the_leaf_works_off(point, history)))
        scored.sort(key=lambda score: score.started)
    return {"not_estimates": others, **{name: summary(said) for name, said in rows.items()}, "points": kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="jobs at the beginning of the trace to leave out")
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--nodes", default="96", help="a file, or how many nodes of 8 GPUs")
    parser.add_argument("--load", type=float, default=1.0, help="jobs come so many times as fast")
    parser.add_argument("--reclaim", action="store_true", help="the decider may evict")
    parser.add_argument("--times", type=int, default=50, help="of the replay, at which it is asked")
    parser.add_argument("--each", type=int, default=4, help="waiting jobs that are asked for at each time")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--fewer", type=int, nargs="*", default=[6, 10], help="ranges of so many runs are shown too")
    parser.add_argument("--minutes", type=float, default=math.inf, help="ask at no further time after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all this, and every point, to a file")
    given = parser.parse_args()
    jobs = read(given.trace)[given.skip : given.skip + given.jobs]
    jobs = [replace(job, submit_s=job.submit_s - jobs[0].submit_s) for job in jobs]
    alike = WorldNode("gpu", Amounts.of({GPU: 8}))
    nodes = [alike] * int(given.nodes) if given.nodes.isdigit() else read_nodes(Path(given.nodes))
    members = {member.name: member for member in split(nodes, given.members, given.seed)}
    empty = Snapshot(tree(jobs, nodes, Quota()), {}, members, Config(reclaim=given.reclaim))
    arriving = units(jobs, Arrivals(given.load, overestimate=None), given.seed)
    found = measure(
        jobs,
        arriving,
        empty,
        given.times,
        given.each,
        given.samples,
        given.fewer,
        given.seed,
        given.minutes,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    del found["points"]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
