"""How far from the best: Fleet's plans against an exact model of every node, on random worlds of middling size.

`python -m tests.bench.exact [--instances N]`. The exact model knows no slots, classes or lanes: one Boolean per gang
and member, one integer per part, member and node, the nodes' vectors and the quota tree as they are, and the same
lexicographic objective (tier, then priority). It gets a minute; where it proves its answer, that is the best there is.

The exact answers take an hour for 500 worlds. They are kept (`--known FILE`) under a digest of what was asked, so that
a run that was stopped goes on, and another version of Fleet is compared with the same answers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ortools.sat.python import cp_model

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Component, Unit
from fleet.core.placement.candidates.grouping import Grouping
from fleet.core.placement.greedy.greedy import age_bucket, band_of, weight
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat

GPU = "nvidia.com/gpu"
NOW = 1_000_000.0


@dataclass(frozen=True)
class Gang:
    """`parts`: (replicas, need by resource); `weight`: its value in its band; `members`: where it may go."""

    id: str
    band: int
    weight: int
    parts: tuple[tuple[int, Mapping[str, int]], ...]
    members: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """Σ amount × started ≤ room."""

    room: int
    amounts: Mapping[str, int]


@dataclass(frozen=True)
class Best:
    """The value reached and its bound, per band in order; the bands after one without proof are left out,
    since their bounds would rest on it."""

    values: tuple[int, ...]
    bounds: tuple[int, ...]
    proven: bool
    seconds: float


def exact(
    gangs: Sequence[Gang], nodes: Mapping[str, Sequence[Mapping[str, int]]], rows: Sequence[Row], limit_s: float
) -> Best:
    """The best answer within `limit_s` seconds. `nodes`: free vectors by member."""
    began = time.perf_counter()
    model = cp_model.CpModel()
    started: dict[str, cp_model.LinearExprT] = {}
    loads: dict[tuple[str, int, str], list[cp_model.LinearExprT]] = {}
    for gang in gangs:
        homes = []
        for member in gang.members:
            here = model.new_bool_var(f"{gang.id}@{member}")
            homes.append(here)
            for number, (replicas, need) in enumerate(gang.parts):
                pods = []
                for index, free in enumerate(nodes[member]):
                    most = min(
                        (free.get(name, 0) // amount for name, amount in need.items() if amount), default=replicas
                    )
                    if most > 0:
                        var = model.new_int_var(0, min(replicas, most), f"{gang.id}@{member}/{index}.{number}")
                        pods.append(var)
                        for name, amount in need.items():
                            loads.setdefault((member, index, name), []).append(amount * var)
                model.add(sum(pods) == replicas * here)
        start = model.new_bool_var(gang.id)
        model.add(sum(homes) == start)
        started[gang.id] = start
    for (member, index, name), load in loads.items():
        model.add(sum(load) <= nodes[member][index].get(name, 0))
    for row in rows:
        model.add(sum(amount * started[gang] for gang, amount in row.amounts.items()) <= row.room)
    values: list[int] = []
    bounds: list[int] = []
    for band in sorted({gang.band for gang in gangs}):
        objective = sum(gang.weight * started[gang.id] for gang in gangs if gang.band == band)
        model.maximize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = max(0.1, limit_s - (time.perf_counter() - began))
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Best(tuple(values), tuple(bounds), False, time.perf_counter() - began)
        values.append(round(solver.objective_value))
        bounds.append(round(solver.best_objective_bound))
        if status != cp_model.OPTIMAL:
            return Best(tuple(values), tuple(bounds), False, time.perf_counter() - began)
        model.add(objective >= values[-1])
    return Best(tuple(values), tuple(bounds), True, time.perf_counter() - began)


def world(seed: int) -> Snapshot:
    """A few members of a dozen nodes each, and about twice the gangs that fit. Every other one has odd sizes."""
    rng = random.Random(seed)
    sizes = (1, 1, 2, 4, 8) if seed % 2 else (1, 2, 3, 4, 5, 6, 7, 8)
    members = []
    for number in range(rng.randint(2, 5)):
        free: Counter[Amounts] = Counter()
        for _ in range(rng.randint(6, 14)):
            gpus = rng.randint(0, 8)
            free[_vector(gpus, rng.choice((0, 8, 16)), 110)] += 1
        pool = Pool(free=tuple(free.items()), allocatable=_vector(8, 16, 110))
        members.append(Member(f"m{number}", pools=(pool,), price=number))
    gpus = sum(vector[GPU] * nodes for member in members for pool in member.pools for vector, nodes in pool.free)
    units = []
    for number in range(rng.randint(25, 60)):
        size, pods = rng.choice(sizes), rng.choice((1, 1, 1, 2, 3, 4))
        parts = [Component("worker", pods, _vector(size, rng.choice((0, 0, 2)), 1))]
        if rng.random() < 0.2:
            parts.insert(0, Component("master", 1, _vector(0, 4, 1)))
        units.append(
            Unit(
                f"u{number:02}",
                f"ns/u{number:02}",
                tuple(parts),
                leaf=f"root/{rng.choice('ab')}/{rng.choice('xyz')}",
                priority=rng.choice((0, 0, 5)),
                enqueued_at=NOW - rng.randrange(40_000),
            )
        )
    nodes = {"root": QuotaNode("root", "root", None, max={GPU: gpus}, children=("root/a", "root/b"))}
    for group in "ab":
        children = tuple(f"root/{group}/{leaf}" for leaf in "xyz")
        nodes[f"root/{group}"] = QuotaNode(
            f"root/{group}", group, "root", max={GPU: rng.randint(gpus // 2, gpus)}, children=children
        )
        for path in children:
            low = rng.randint(0, gpus // 8)
            nodes[path] = QuotaNode(
                path, path[-1], f"root/{group}", min={GPU: low}, max={GPU: rng.randint(gpus // 6, gpus // 2) + low}
            )
    config = Config(head_after_s=0)  # nobody collects room: the objective alone decides
    return replace(Snapshot.of(units, members, QuotaTree("root", nodes)), config=config)


def _vector(gpus: int, more_cpus: int, pods: int) -> Amounts:
    return Amounts.of({GPU: gpus, "cpu": (gpus * 8 + more_cpus) * 1000, "pods": pods})


def posed(snapshot: Snapshot) -> tuple[list[Gang], dict[str, list[dict[str, int]]], list[Row]]:
    """The snapshot as the exact model takes it: tiers, weights and limits as `decide` sees them, nodes one by one."""
    given = Grouping(snapshot, NOW)
    assert given.usage is not None
    candidates = [group.candidate(index) for group in given.groups for index in range(len(group.units))]
    bands = sorted({band_of(candidate) for candidate in candidates})
    gangs: list[Gang] = []
    amounts: dict[tuple[str, str], dict[str, int]] = {}
    for candidate in candidates:
        unit = candidate.unit
        parts = tuple((part.replicas, dict(part.requests.items_)) for part in unit.components)
        worth = weight(given.space.shapes[candidate.shape], age_bucket(unit, NOW), given.space)
        members = tuple(choice.member for choice in candidate.eligibility.choices)
        gangs.append(Gang(unit.id, bands.index(band_of(candidate)), worth, parts, members))
        for node in given.usage.path(candidate.account or ""):
            for name, amount in candidate.request.items_:
                if given.usage.room(node, name) is not None:
                    amounts.setdefault((node, name), {})[unit.id] = amount
    rows = [Row(given.usage.room(node, name) or 0, asked) for (node, name), asked in amounts.items()]
    nodes = {
        member.name: [dict(free.items_) for pool in member.pools for free, count in pool.free for _ in range(count)]
        for member in snapshot.members.values()
    }
    return gangs, nodes, rows


def best_of(seed: int, limit_s: float, known: Mapping[str, Any]) -> tuple[str, Best]:
    """The exact answer for a world, and the digest of what was asked; out of `known` if it was asked before."""
    asked = posed(world(seed))
    digest = hashlib.sha256(repr((asked, limit_s)).encode()).hexdigest()[:16]
    if digest in known:
        before = known[digest]
        return digest, Best(tuple(before["values"]), tuple(before["bounds"]), before["proven"], before["seconds"])
    return digest, exact(*asked, limit_s)


def compare(seed: int, best: Best) -> dict[str, Any]:
    """One world: what the plan reaches per band, beside the best there is (or a bound of it)."""
    snapshot = world(seed)
    gangs, nodes, _ = posed(snapshot)
    began = time.perf_counter()
    plan = decide(snapshot, now=NOW, seed=1, solver=CpSat())
    took = time.perf_counter() - began
    greedy = decide(snapshot, now=NOW, seed=1, solver=None)
    bands = range(len(best.values))
    by_id = {gang.id: gang for gang in gangs}

    def value(made: Plan) -> list[int]:
        chosen = [by_id[placement.unit] for placement in made.placements]
        return [sum(gang.weight for gang in chosen if gang.band == band) for band in bands]

    return {
        "seed": seed,
        "gangs": len(gangs),
        "nodes": sum(map(len, nodes.values())),
        "proven": best.proven,
        "best": best.values,
        "fleet": value(plan),
        "greedy": value(greedy),
        "shipped": plan.certificate.shipped,
        "fleet_s": round(took, 3),
        "exact_s": round(best.seconds, 3),
    }


def gap(best: Sequence[int], found: Sequence[int]) -> float:
    """The missing value in the first band in which they differ, as a share of all up to and with that band; what comes
    after it cannot be compared."""
    for band, (most, mine) in enumerate(zip(best, found, strict=True)):
        if mine != most:
            return (most - mine) / max(1, sum(best[: band + 1]))
    return 0.0


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = [row for row in rows if row["proven"]]
    found: dict[str, Any] = {
        "instances": len(rows),
        "proven": len(known),
        "exact_s": statistics.median(row["exact_s"] for row in rows),
        "fleet_s": statistics.median(row["fleet_s"] for row in rows),
    }
    for who in ("fleet", "greedy"):
        gaps = sorted(gap(row["best"], row[who]) for row in known)
        found[who] = {
            "equal": sum(missing <= 0 for missing in gaps),
            "mean_gap": statistics.mean(gaps) if gaps else 0.0,
            "p95_gap": gaps[int(0.95 * (len(gaps) - 1))] if gaps else 0.0,
            "worst_gap": gaps[-1] if gaps else 0.0,
        }
    return found


def exact_answers(instances: int, limit_s: float, workers: int, file: Path) -> list[Best]:
    """The answers, by seed. Answers that `file` lacks are added to it as they come."""
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    answers: list[Best] = []
    with ProcessPoolExecutor(workers) as pool:
        seeds, limits, before = range(instances), [limit_s] * instances, [known] * instances
        for digest, best in pool.map(best_of, seeds, limits, before):
            answers.append(best)
            if digest not in known:
                known[digest] = asdict(best)
                beside = file.with_suffix(".new")
                beside.write_text(json.dumps(known, indent=0) + "\n")
                beside.replace(file)
            _progress("exact", len(answers), instances)
    return answers


def _progress(what: str, done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {done} of {of} ", end="" if done < of else "\n", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the exact model")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--known", type=Path, default=Path("build/exact-known.json"), help="exact answers, kept")
    parser.add_argument("--json", type=Path, default=Path("build/exact.json"))
    arguments = parser.parse_args()
    arguments.known.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    answers = exact_answers(arguments.instances, arguments.limit, arguments.workers, arguments.known)
    rows: list[dict[str, Any]] = []
    for seed, best in enumerate(answers):  # one at a time: the solver's limit is one of the clock
        rows.append(compare(seed, best))
        _progress("Fleet", len(rows), len(answers))
    found = summary(rows)
    arguments.json.write_text(json.dumps({"summary": found, "rows": rows}, indent=1) + "\n")
    known = max(1, found["proven"])
    times = f"median {found['exact_s']:.2f} s exact, {found['fleet_s']:.2f} s Fleet"
    print(f"{found['instances']} worlds, the best proven in {found['proven']}; {times}")
    for who in ("fleet", "greedy"):
        mine = found[who]
        print(
            f"{who:>6}: equal to the best in {mine['equal']} ({100 * mine['equal'] / known:.1f} %), "
            f"mean gap {100 * mine['mean_gap']:.2f} %, p95 {100 * mine['p95_gap']:.2f} %, "
            f"worst {100 * mine['worst_gap']:.2f} %"
        )


if __name__ == "__main__":
    main()
