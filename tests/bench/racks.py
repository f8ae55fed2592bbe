"""How long one decision takes where gangs must lie within racks: `python -m tests.bench.racks [N …]`.

The worlds are those of tests/bench/decide.py with nodes in racks of 16, and three mixes of gangs: that of a training
cluster (`mixed`), gangs of 1 to 16 whole nodes (`whole`), and gangs of 2 to 16 pods that also use what is left of
broken nodes (`broken`). `--pinned` is the part of the gangs that must lie within one rack. Each world is decided with
these rules and without. Prints a table; `--json` prints JSON. For each mix:

  greedy_s, final_s          a decision without solver, and with it
  free_greedy_s, free_final_s    the same world without rules
  reached                    the value of what the plan starts, as a part of what is proven to be the most; 0: no proof
  max_rss_mib                of this process, after all decisions so far
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.plan import Plan
from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Component
from fleet.core.placement.candidates.grouping import Grouping
from fleet.core.placement.greedy.greedy import age_bucket, weight
from fleet.core.snapshot import Snapshot
from fleet.core.solver.process import ProcessSolver
from tests.bench.decide import GPU, NOW, SHAPES, as_the_controllers, final, world

RACK = 16  # nodes
PROVEN = ("OPTIMAL", "FEASIBLE")
MIXES = {  # (pods, GPUs of one)
    "mixed": SHAPES,
    "whole": tuple((pods, 8) for pods in range(1, RACK + 1)),
    "broken": (
        *((pods, 2) for pods in (2, 3, 4, 6, 8, 16)),
        *((pods, 4) for pods in (2, 4, 8)),
        *((pods, 8) for pods in (2, 4)),
        *((pods, 1) for pods in (4, 12)),
    ),
}


def racked(snapshot: Snapshot, seed: int, mix: str, pinned: float) -> Snapshot:
    """The same world with its nodes in racks, and gangs of this mix, a part of which must lie within one rack."""
    rng = random.Random(seed)
    units = dict(snapshot.units)
    for key, unit in units.items():
        pods, gpus = rng.choice(MIXES[mix])
        requests = Amounts.of({GPU: gpus, "cpu": gpus * 8000, "memory": gpus * (64 << 30), "pods": 1})
        rules = (PlacementRule("rack"),) if rng.random() < pinned else ()
        units[key] = replace(unit, components=(Component("worker", pods, requests),), rules=rules)
    members = {name: _in_racks(member, rng) for name, member in snapshot.members.items()}
    return Snapshot(snapshot.tree, units, members, snapshot.config)


def _in_racks(member: Member, rng: random.Random) -> Member:
    (pool,) = member.pools
    nodes = [vector for vector, count in pool.free for _ in range(count)]
    rng.shuffle(nodes)
    racks = (nodes[start : start + RACK] for start in range(0, len(nodes), RACK))
    pools = (
        replace(pool, labels=(("rack", f"r{number}"),), free=tuple(Counter(rack).items()))
        for number, rack in enumerate(racks)
    )
    return replace(member, pools=tuple(pools))


def reached(snapshot: Snapshot, plan: Plan) -> float:
    """The value of what starts, as a part of what the stages of the solver prove to be the most; 0 where a stage has no
    answer."""
    stages = [stage for stage in plan.certificate.stages if stage.name != "fit"]
    most = sum(stage.bound for stage in stages) if all(stage.status in PROVEN for stage in stages) else 0
    started = {placement.unit for placement in plan.placements}
    situation = Grouping(snapshot, NOW)
    value = sum(
        weight(situation.space.shapes[group.shape], age_bucket(unit, NOW), situation.space)
        for group in situation.groups
        for unit in group.units
        if unit.id in started
    )
    return value / most if most else 0.0


def measure(pending: int, mix: str, runs: int, pinned: float, solver: ProcessSolver) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    parts: list[float] = []
    for seed in range(runs):
        members, nodes = (3, 900) if pending <= 1_000 else (32, 9_704)
        fleet = world(pending, members, nodes, seed)
        for prefix, part in (("", pinned), ("free_", 0.0)):
            snapshot = racked(fleet, seed, mix, part)
            began = time.perf_counter()
            decide(snapshot, now=NOW, seed=seed, solver=None)
            times.setdefault(f"{prefix}greedy_s", []).append(time.perf_counter() - began)
            began = time.perf_counter()
            plan = final(replace(snapshot), seed, solver)
            times.setdefault(f"{prefix}final_s", []).append(time.perf_counter() - began)
            if part:
                parts.append(reached(snapshot, plan))
                why = plan.certificate.why
    return {
        "pending": pending,
        "mix": mix,
        "pinned": pinned,
        **{name: round(max(seconds), 3) for name, seconds in times.items()},
        "times": {name: [round(second, 4) for second in seconds] for name, seconds in times.items()},
        "reached": round(min(parts), 4),
        "parts": parts,
        "why": why,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pending", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--pinned", type=float, default=0.6)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    solver = as_the_controllers()
    rows = [
        measure(pending, mix, arguments.runs, arguments.pinned, solver)
        for pending in arguments.pending
        for mix in arguments.mix or MIXES
    ]
    solver.close()
    if arguments.json:
        json.dump(rows, sys.stdout)
        return
    for row in rows:
        print(" ".join(f"{key}={value}" for key, value in row.items() if key not in ("times", "parts")))


if __name__ == "__main__":
    main()
