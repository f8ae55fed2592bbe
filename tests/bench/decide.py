"""How long one decision takes, by number of pending gangs: `python -m tests.bench.decide [N …]`.

Worlds are made from a seed: 30 leaves in three levels, 3 priorities, gangs in the proportions of a training cluster
(mostly one GPU, up to 4 × 8), members whose nodes are half free and fragmented. `--members`, `--nodes` and `--leaves`
make other fleets; `--users` caps what each of so many users has in a leaf, `--walltimes` gives every gang one of its
own, `--elastic` lets every n-th gang have up to twice its pods. Prints a table; `--json` prints JSON.
Seconds, the slowest of `--runs` worlds:

  index_s    sorting all units of a new snapshot into lots, which is done once
  greedy_s   a decision without solver, index included
  final_s    a decision with solver, index included
  update_s   1 % of units and nodes are others, applied to a snapshot that has its index
  cold_s     that update and a decision without solver: everything starts that can
  changed_s  the same once what starts is placed: only what follows from the change starts
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.cause import OPTIMAL
from fleet.core.model.leaving import vacated
from fleet.core.model.member import Member, Pool
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Component, ElasticSizes, Phase, Seat, Step, Unit
from fleet.core.placement.candidates.grouping import Grouping
from fleet.core.placement.greedy.greedy import age_bucket, weight
from fleet.core.placement.packing.layout import lay_out
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.room import committed as committed_shape
from fleet.core.placement.problem import Problem
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.core.snapshot.backlog import Backlog
from fleet.core.snapshot.surplus import resized
from fleet.core.solver.intime import TimedSolver
from fleet.core.solver.process import ProcessSolver
from fleet.hub.collecting import collect_seldom

_T = TypeVar("_T")
GPU = "nvidia.com/gpu"
NOW = 1_000_000.0
SHAPES = ((1, 1),) * 8 + ((1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (2, 4))  # (pods, GPUs of one)


def world(pending: int, members: int, nodes: int, seed: int, leaves_in_all: int = 30) -> Snapshot:
    """`nodes` nodes over all members, about half free."""
    rng = random.Random(seed)
    paths = {"root": ["root/g0", "root/g1", "root/g2"]}
    for number, group in enumerate(paths["root"]):
        paths[group] = [f"{group}/leaf{i}" for i in range((leaves_in_all + 2 - number) // 3)]
    leaves = [leaf for group in paths["root"] for leaf in paths[group]]
    tree_nodes = {}
    for path in ("root", *paths["root"], *leaves):
        share = 1.0 if path == "root" else 0.4 if path in paths else 3 / leaves_in_all
        tree_nodes[path] = QuotaNode(
            path,
            path.rpartition("/")[2],
            path.rpartition("/")[0] or None,
            max={GPU: int(nodes * 8 * share)},
            children=tuple(paths.get(path, ())),
        )
    units: dict[str, Unit] = {}
    for number in range(pending):
        pods, gpus = rng.choice(SHAPES)
        requests = Amounts.of({GPU: gpus, "cpu": gpus * 8000, "memory": gpus * (64 << 30), "pods": 1})
        name = f"u{number:07}"
        units[name] = Unit(
            name,
            f"ns/{name}",
            (Component("worker", pods, requests),),
            leaf=rng.choice(leaves),
            priority=rng.choice((0, 0, 0, 5, 9)),
            enqueued_at=NOW - rng.randrange(40_000),
        )
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


def varied(snapshot: Snapshot, seed: int, users: int, walltimes: bool) -> Snapshot:
    """The same, where each gang is of one of `users`, who may have 64 GPUs in each leaf, or says how long it runs."""
    rng = random.Random(seed)
    units = dict(snapshot.units)
    for key, unit in units.items():
        user = f"user{rng.randrange(users)}" if users else ""
        units[key] = replace(unit, user=user, walltime_s=float(rng.randrange(600, 10**7)) if walltimes else None)
    tree = snapshot.tree
    if users and tree is not None:
        caps = {USER_MAX: f'{{"{GPU}": 64}}'}
        nodes = {path: node if node.children else replace(node, attributes=caps) for path, node in tree.nodes.items()}
        tree = QuotaTree(tree.root, nodes)
    return Snapshot(tree, units, snapshot.members)


def elastic(snapshot: Snapshot, every: int) -> Snapshot:
    """The same, where every so many gangs there is one that may have up to twice its pods; plans may take back."""
    units = dict(snapshot.units)
    for number, (key, unit) in enumerate(units.items()):
        if every and not number % every:
            (part,) = unit.components
            whole = (replace(part, replicas=2 * part.replicas),)
            units[key] = replace(unit, sizes=ElasticSizes(whole, ((part.name, 1),)))
    return Snapshot(snapshot.tree, units, snapshot.members, replace(snapshot.config, reclaim=bool(every)))


def with_surplus(unit: Unit, member: Member) -> Unit:
    """An elastic unit that runs: each pod beyond its least lies on a node of its own."""
    if unit.sizes is None:
        return unit
    (part,), (whole,) = unit.components, unit.sizes.whole
    vectors = [vector for vector, _ in member.pools[0].free]
    names = range(part.replicas - whole.replicas // 2)
    seats = tuple(Seat(f"{unit.id}-{n}", 0, vectors[n % len(vectors)], part.requests) for n in names)
    surplus = tuple(Step(part.name, 1, 1, (seat,)) for seat in seats)
    asks = () if part.replicas == whole.replicas else unit.sizes.whole
    return replace(unit, seats=seats, sizes=replace(unit.sizes, whole=asks, surplus=surplus))


def changes(snapshot: Snapshot, seed: int) -> SnapshotChanges:
    """One unit in a hundred is gone and another is there for it; one node in a hundred has other pods."""
    rng = random.Random(seed)
    waiting = [key for key, unit in snapshot.units.items() if unit.phase is Phase.WAITING]
    running = [key for key, unit in snapshot.units.items() if unit.phase is Phase.PLACED]
    gone = [*rng.sample(waiting, len(waiting) // 100), *rng.sample(running, len(running) // 100)]
    new = (
        replace(snapshot.units[key], id=f"{key}+", name=f"ns/{key}+", phase=Phase.WAITING, member=None, visible=())
        for key in gone
    )
    moved: list[Member] = []
    ended = [unit for unit in map(snapshot.units.__getitem__, gone) if unit.member is not None]
    for name in snapshot.members:
        member = vacated(snapshot.members[name], [unit for unit in ended if unit.member == name])
        (pool,) = member.pools
        free = dict(pool.free)
        for vector in rng.choices(list(free), k=max(1, sum(free.values()) // 100)):
            if free.get(vector):
                free[vector] -= 1
                other = rng.choice(pool.free)[0]
                free[other] = free.get(other, 0) + 1
        left = tuple((vector, count) for vector, count in free.items() if count)
        moved.append(replace(member, pools=(replace(pool, free=left),)))
    return SnapshotChanges(put_units=tuple(new), removed_units=tuple(gone), put_members=tuple(moved))


def committed(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once all that the plan starts runs and is seen."""
    after = snapshot.apply(
        SnapshotChanges(
            put_units=tuple(
                replace(
                    snapshot.units[p.unit],
                    phase=Phase.PLACED,
                    member=p.member,
                    placed_at=NOW,
                    components=resized(snapshot.units[p.unit].components, dict(p.sizes)),
                )
                for p in plan.placements
            )
        )
    )
    space = Grouping(after, NOW).space
    unseen = after.backlog.unseen.values()
    coming = [(unit.id, unit.member or "", committed_shape(unit, space)) for unit in unseen]
    whole = {name: MemberRoom.of(after.members[name], space) for name in after.members}
    found = lay_out(whole, coming, space).rooms
    members = []
    for name, room in found.items():
        free = [
            (Amounts.of(dict(zip(space.resources, vector, strict=True))), nodes)
            for pool in room.pools
            for vector, nodes in pool.counts.items()
        ]
        members.append(replace(after.members[name], pools=(replace(after.members[name].pools[0], free=tuple(free)),)))
    there = {member.name: member for member in members}
    seen = (replace(unit, visible=tuple((c.name, c.replicas) for c in unit.components)) for unit in unseen)
    units = tuple(with_surplus(unit, there[unit.member or ""]) for unit in seen)
    return after.apply(SnapshotChanges(put_units=units, put_members=tuple(members)))


def measure(
    pending: int,
    solver: ProcessSolver,
    runs: int,
    members: int = 0,
    nodes: int = 0,
    leaves: int = 30,
    users: int = 0,
    walltimes: bool = False,
    every: int = 0,
) -> dict[str, Any]:
    if not members:
        members, nodes = (3, 900) if pending <= 1_000 else (32, 9_704)
    took: dict[str, list[float]] = {}

    def timed(name: str, what: Callable[[], _T]) -> _T:
        began = time.perf_counter()
        found = what()
        took.setdefault(name, []).append(time.perf_counter() - began)
        return found

    plan = None
    gaps: list[float] = []
    for seed in range(runs):
        snapshot = elastic(varied(world(pending, members, nodes, seed, leaves), seed, users, walltimes), every)
        timed("greedy_s", lambda: decide(snapshot, now=NOW, seed=seed, solver=None))  # noqa: B023
        timed("sort_s", lambda: sorted(snapshot.units.values(), key=queue_order))  # noqa: B023
        timed("index_s", lambda: Backlog.of(snapshot.tree, snapshot.units))  # noqa: B023
        step = changes(snapshot, seed)
        timed("update_s", lambda: snapshot.apply(step))  # noqa: B023
        timed("cold_s", lambda: decide(snapshot.apply(step), now=NOW, seed=seed, solver=None))  # noqa: B023
        plan = timed("final_s", lambda: final(replace(snapshot), seed, solver))  # noqa: B023
        gaps.append(worst_gap(snapshot, plan))
        running = committed(snapshot, plan)
        decide(running, now=NOW, seed=seed, solver=None)
        later = changes(running, seed)
        timed("changed_s", lambda: decide(running.apply(later), now=NOW, seed=seed, solver=None))  # noqa: B023
    assert plan is not None
    stages = [(s.name, s.value, s.bound, s.status, round(s.seconds, 2)) for s in plan.certificate.stages]
    return {
        "pending": pending,
        "members": members,
        "nodes": nodes,
        "leaves": leaves,
        "users": users,
        "walltimes": walltimes,
        "elastic": every,
        "lots": len(snapshot.backlog.lots),
        "started": len(plan.placements),
        **{name: round(max(seconds), 3) for name, seconds in took.items()},
        "times": {name: [round(s, 4) for s in seconds] for name, seconds in took.items()},
        "gaps": gaps,
        "shipped": plan.certificate.shipped,
        "why": plan.certificate.why,
        "stages": stages,
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def final(snapshot: Snapshot, seed: int, solver: ProcessSolver) -> Plan:
    """As the controllers decide."""
    return decide(snapshot, now=NOW, seed=seed, solver=TimedSolver(solver, time.monotonic))


def worst_gap(snapshot: Snapshot, plan: Plan) -> float:
    """How much of what is proven to be the most is missing in the plan, in the tier and priority where it is worst: 0
    is optimal, 1 where nothing is proven. A stage's bound is proven given what the solver reached before it, so where
    the plan reaches more than that, what comes after has no bound."""
    if not plan.certificate.stages:
        return 0.0 if plan.certificate.causes[0].code in OPTIMAL else 1.0
    given = Grouping(snapshot, NOW)
    started = {placement.unit for placement in plan.placements}
    reached: Counter[str] = Counter()
    for group in given.groups:
        for index, key in enumerate(group.ids):
            if key in started:
                candidate = group.candidate(index)
                worth = weight(given.space.shapes[group.shape], age_bucket(candidate.unit, NOW), given.space)
                reached[f"{candidate.tier.name.lower()}, priority {group.priority}"] += worth
    worst = 0.0
    for stage in plan.certificate.stages:
        if stage.name != "fit" and stage.bound > 0:
            worst = max(worst, 1 - min(1.0, reached[stage.name] / stage.bound))
        if reached[stage.name] > stage.value:
            break
    return worst


def as_the_controllers() -> ProcessSolver:
    """Collects garbage as rarely as the controllers process does. The solver's child is up: its start is not what is
    measured here."""
    collect_seldom()
    solver = ProcessSolver()
    solver.solve(Problem(bands=(), classes=(), lanes=(), quota=(), rooms=()), seed=0, limit_s=60.0)
    return solver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pending", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--members", type=int, default=0, help="3 or 32 unless given, with --nodes")
    parser.add_argument("--nodes", type=int, default=0, help="in all members together")
    parser.add_argument("--leaves", type=int, default=30)
    parser.add_argument("--users", type=int, default=0)
    parser.add_argument("--walltimes", action="store_true")
    parser.add_argument("--elastic", type=int, default=0, help="every so many gangs one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    solver = as_the_controllers()
    asked = arguments
    fleet = (asked.members, asked.nodes, asked.leaves, asked.users, asked.walltimes, asked.elastic)
    rows = [measure(pending, solver, arguments.runs, *fleet) for pending in arguments.pending]
    solver.close()
    if arguments.json:
        json.dump(rows, sys.stdout)
        return
    for row in rows:
        print(" ".join(f"{key}={value}" for key, value in row.items() if key not in ("times", "gaps")))


if __name__ == "__main__":
    main()
