"""How long one cold decision takes, by number of pending gangs: `python -m tests.bench.decide [N …]`.

Worlds are made from a seed: 30 leaves in three levels, 3 priorities, gangs in the proportions of a training cluster
(mostly one GPU, up to 4 × 8), members whose nodes are half free and fragmented. Prints a table; `--json` prints JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from typing import Any

from fleet.decide import decide
from fleet.model.amounts import Amounts
from fleet.model.member import Member, Pool
from fleet.model.unit import Component, Unit
from fleet.placement.process import ProcessSolver
from fleet.quota.tree import QuotaNode, QuotaTree
from fleet.snapshot import Snapshot

GPU = "nvidia.com/gpu"
NOW = 1_000_000.0
SHAPES = ((1, 1),) * 8 + ((1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (2, 4))  # (pods, GPUs of one)


def world(pending: int, members: int, nodes: int, seed: int) -> Snapshot:
    """`nodes` nodes over all members, about half free."""
    rng = random.Random(seed)
    paths = {"root": ["root/g0", "root/g1", "root/g2"]}
    for group in paths["root"]:
        paths[group] = [f"{group}/leaf{i}" for i in range(10)]
    leaves = [leaf for group in paths["root"] for leaf in paths[group]]
    tree_nodes = {}
    for path in ("root", *paths["root"], *leaves):
        share = 1.0 if path == "root" else 0.4 if path in paths else 0.1
        tree_nodes[path] = QuotaNode(
            path, path.rpartition("/")[2], path.rpartition("/")[0] or None,
            max={GPU: int(nodes * 8 * share)}, children=tuple(paths.get(path, ())),
        )  # fmt: skip
    units: dict[str, Unit] = {}
    for number in range(pending):
        pods, gpus = rng.choice(SHAPES)
        requests = Amounts.of({GPU: gpus, "cpu": gpus * 8000, "memory": gpus * (64 << 30), "pods": 1})
        name = f"u{number:07}"
        units[name] = Unit(
            name, f"ns/{name}", (Component("worker", pods, requests),), leaf=rng.choice(leaves),
            priority=rng.choice((0, 0, 0, 5, 9)), enqueued_at=NOW - rng.randrange(40_000),
        )  # fmt: skip
    found: dict[str, Member] = {}
    whole = Amounts.of({GPU: 8, "cpu": 96_000, "memory": 768 << 30, "pods": 110})
    for number in range(members):
        free: dict[Amounts, int] = {}
        for _ in range(nodes // members):
            gpus = rng.choice((0, 0, 0, 1, 2, 3, 4, 6, 8, 8))
            cpu = gpus * 8 + rng.randrange(0, 33, 8)
            vector = Amounts.of({GPU: gpus, "cpu": cpu * 1000, "memory": (gpus * 72 + 96) << 30, "pods": 60 + gpus})
            free[vector] = free.get(vector, 0) + 1
        found[f"m{number:03}"] = Member(f"m{number:03}", pools=(Pool(free=tuple(free.items()), allocatable=whole),))
    return Snapshot(QuotaTree("root", tree_nodes), units, found)


def measure(pending: int, solver: ProcessSolver, runs: int) -> dict[str, Any]:
    members, nodes = (3, 900) if pending <= 1_000 else (32, 9_704)
    greedy, final, plan = [], [], None
    for seed in range(runs):
        snapshot = world(pending, members, nodes, seed)
        began = time.perf_counter()
        decide(snapshot, now=NOW, seed=seed, solver=None)
        greedy.append(time.perf_counter() - began)
        began = time.perf_counter()
        plan = decide(snapshot, now=NOW, seed=seed, solver=solver)
        final.append(time.perf_counter() - began)
    assert plan is not None
    stages = [(s.name, s.value, s.bound, s.status, round(s.seconds, 2)) for s in plan.certificate.stages]
    return {
        "pending": pending, "members": members, "nodes": nodes, "started": len(plan.placements),
        "greedy_s": round(max(greedy), 3), "final_s": round(max(final), 3), "shipped": plan.certificate.shipped,
        "why": plan.certificate.why, "stages": stages,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pending", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    solver = ProcessSolver()
    for _ in range(30):  # until the child is up: its start is not what is measured here
        if measure(200, solver, 1)["why"] != "the solver is still starting":
            break
    rows = [measure(pending, solver, arguments.runs) for pending in arguments.pending]
    solver.close()
    if arguments.json:
        json.dump(rows, sys.stdout)
        return
    for row in rows:
        print(" ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
