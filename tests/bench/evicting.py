"""How long a decision takes that evicts: `python -m tests.bench.evicting [N …]`.

The fleet of tests.bench.decide runs full of what borrows, every pod on a node that is known; then the jobs of a leaf
arrive that is promised 600 GPUs. Who wins room depends on who else would: gangs take it back one after another, and
their victims are chosen together. Prints a table; `--json` prints JSON. Seconds, of `--runs` worlds:

  greedy_s, greedy_cpu_s  the decision without a solver, its checker included; and processor time of it
  final_s                 with a solver, within the time that the controllers give it

And how many claim room in each world, by evicting how many, without and with a solver.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot, SnapshotChanges
from fleet.core.solver.intime import TimedSolver
from fleet.core.solver.process import ProcessSolver
from tests.bench.decide import GPU, NOW, as_the_controllers, world

HUNGRY = "root/g0/leaf0"
PROMISED = 600
LATER = NOW + 1000.0  # nobody is protected by its age any more


def storm(pending: int, members: int, nodes: int, seed: int) -> Snapshot:
    """The fleet with its jobs running, and `pending` waiting, those of the hungry leaf among them."""
    empty = world(pending, members, nodes, seed)
    assert empty.tree is not None
    promised = {path: replace(empty.tree.nodes[path], min={GPU: PROMISED}) for path in ("root", "root/g0", HUNGRY)}
    tree = QuotaTree("root", {**empty.tree.nodes, **promised})
    late = tuple(unit for unit in empty.units.values() if unit.leaf == HUNGRY)
    others = {key: unit for key, unit in empty.units.items() if unit.leaf != HUNGRY}
    calm = Snapshot(tree, others, empty.members, Config(reclaim=True))
    running = seated(calm, decide(calm, now=NOW, seed=seed, solver=None))
    decide(running, now=LATER, seed=seed, solver=None)  # so that its index is there, as in a hub that runs
    return running.apply(SnapshotChanges(put_units=late))


def seated(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once all that the plan starts runs: each pod on the fullest node that takes it."""
    placed: dict[str, list[Unit]] = {}
    for placement in plan.placements:
        placed.setdefault(placement.member, []).append(snapshot.units[placement.unit])
    units: list[Unit] = []
    members: list[Member] = []
    for name, member in snapshot.members.items():
        nodes = [vector for vector, count in member.pools[0].free for _ in range(count)]
        gangs = sorted(placed.get(name, ()), key=lambda unit: (-unit.components[0].requests[GPU], unit.id))
        homes: dict[str, list[int]] = {}
        for unit in gangs:
            seats = _seats(nodes, unit.components[0].requests, unit.components[0].replicas)
            if seats:
                homes[unit.id] = seats
        free: dict[Amounts, int] = {}
        for vector in nodes:
            free[vector] = free.get(vector, 0) + 1
        members.append(replace(member, pools=(replace(member.pools[0], free=tuple(free.items())),)))
        for unit in gangs:
            part = unit.components[0]
            held = tuple(Seat(f"{name}/{at}", 0, nodes[at], part.requests) for at in homes.get(unit.id, ()))
            if held:
                seen = ((part.name, part.replicas),)
                units.append(replace(unit, phase=Phase.PLACED, member=name, placed_at=NOW, visible=seen, seats=held))
    return snapshot.apply(SnapshotChanges(put_units=tuple(units), put_members=tuple(members)))


def _seats(nodes: list[Amounts], request: Amounts, pods: int) -> list[int]:
    """Nodes for the pods, which they take; none when they do not all fit."""
    found: list[int] = []
    for at in sorted((at for at, free in enumerate(nodes) if request.fits(free)), key=lambda at: nodes[at][GPU]):
        left = nodes[at]
        while len(found) < pods and request.fits(left):
            left = left.minus(request)
            found.append(at)
    if len(found) < pods:
        return []
    for at in found:
        nodes[at] = nodes[at].minus(request)
    return found


def measure(pending: int, solver: ProcessSolver, runs: int, members: int, nodes: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"greedy_s": [], "greedy_cpu_s": [], "final_s": []}
    counts: dict[str, list[int]] = {}
    for seed in range(runs):
        snapshot = storm(pending, members, nodes, seed)
        snapshot.backlog  # noqa: B018 (made before the clock runs)
        began, busy = time.perf_counter(), time.process_time()
        greedy = decide(snapshot, now=LATER, seed=seed, solver=None)
        times["greedy_s"].append(time.perf_counter() - began)
        times["greedy_cpu_s"].append(time.process_time() - busy)
        began = time.perf_counter()
        final = decide(snapshot, now=LATER, seed=seed, solver=TimedSolver(solver, time.monotonic))
        times["final_s"].append(time.perf_counter() - began)
        found = {"running": len(snapshot.backlog.holding), "claims": len(greedy.claims)}
        found |= {"evictions": len(greedy.evictions)}
        found |= {"final_claims": len(final.claims), "final_evictions": len(final.evictions)}
        for name, count in found.items():
            counts.setdefault(name, []).append(count)
        assert greedy.evictions
        assert "checker" not in greedy.certificate.why + final.certificate.why
    return {
        "pending": pending,
        **{name: round(max(seconds), 3) for name, seconds in times.items()},
        **counts,
        "times": {name: [round(s, 4) for s in seconds] for name, seconds in times.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pending", nargs="*", type=int, default=[100_000])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=9_704, help="in all members together")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    solver = as_the_controllers()
    rows = [measure(n, solver, arguments.runs, arguments.members, arguments.nodes) for n in arguments.pending]
    solver.close()
    if arguments.json:
        json.dump(rows, sys.stdout)
        return
    for row in rows:
        print(" ".join(f"{key}={value}" for key, value in row.items() if key != "times"))


if __name__ == "__main__":
    main()
