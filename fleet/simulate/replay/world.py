"""The world that a trace is replayed in: members with the nodes of an inventory, a quota tree, and units as they
arrive.

An inventory is one data centre's, and becomes a fleet by dealing its nodes, shuffled by the seed, to the members in
turn. A trace has no quota either: every leaf is promised the same part of what it asks for over the whole trace
(`guarantee` times the fleet, divided by GPU seconds), unless amounts are given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Unit
from fleet.core.quota.fairshare import SHARED_WEIGHTS
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.simulate.replay.table import BadTrace, header, rows
from fleet.simulate.replay.trace import GPU, MIB, MODEL, TraceJob

ZERO = 1_000_000_000.0  # the epoch second of a replay's beginning
ROOT = "root"
NODES_MAX = 200_000


@dataclass(frozen=True, slots=True)
class WorldNode:
    model: str
    has: Amounts


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`load` 2.0: jobs come twice as fast. `jitter_s`: each comes up to so many seconds sooner or later, by the seed.
    `overestimate`: walltimes are the true durations times this; None: there are none."""

    load: float = 1.0
    jitter_s: float = 0.0
    overestimate: float | None = 2.0


@dataclass(frozen=True, slots=True)
class Quota:
    """GPUs per leaf; defaults: min as said above, no max, equal weights."""

    guarantee: float = 0.7
    min: Mapping[str, int] = field(default_factory=dict)
    max: Mapping[str, int] = field(default_factory=dict)
    weight: Mapping[str, int] = field(default_factory=dict)


def read_nodes(path: Path) -> list[WorldNode]:
    """Nodes in the columns of openb (cpu_milli, memory_mib, gpu, model) or of the spot trace (gpu_model,
    gpu_capacity_num, cpu_num). Raises BadTrace."""
    nodes: list[WorldNode] = []
    if "gpu_capacity_num" in header(path):
        for row in rows(path, ("gpu_model", "gpu_capacity_num", "cpu_num")):
            has = {GPU: row.whole("gpu_capacity_num"), "cpu": row.whole("cpu_num") * 1000}
            nodes.append(WorldNode(row.text("gpu_model"), Amounts.of(has)))
    else:
        for row in rows(path, ("cpu_milli", "memory_mib", "gpu", "model")):
            memory = row.whole("memory_mib") * MIB
            has = {GPU: row.whole("gpu"), "cpu": row.whole("cpu_milli"), "memory": memory}
            nodes.append(WorldNode(row.text("model"), Amounts.of(has)))
    if not nodes or len(nodes) > NODES_MAX:
        raise BadTrace(f"{path}: has {len(nodes)} nodes; from 1 to {NODES_MAX} can be used")
    return nodes


def split(nodes: Sequence[WorldNode], members: int, seed: int) -> list[Member]:
    """The nodes dealt to so many members, whose sizes differ by one node at most. All are empty."""
    dealt = list(nodes)
    random.Random(seed).shuffle(dealt)
    result: list[Member] = []
    for number in range(members):
        kinds: dict[WorldNode, int] = {}
        for node in dealt[number::members]:
            kinds[node] = kinds.get(node, 0) + 1
        pools = tuple(
            Pool(labels=((MODEL, node.model),), free=((node.has, count),), allocatable=node.has)
            for node, count in sorted(kinds.items(), key=lambda kind: (kind[0].model, kind[0].has.items_))
        )
        result.append(Member(f"member-{number + 1}", pools=pools))
    return result


def tree(jobs: Sequence[TraceJob], nodes: Sequence[WorldNode], quota: Quota) -> QuotaTree:
    """One leaf for each queue of the trace. Raises BadTrace when quota is given for a queue that it does not have."""
    work: dict[str, float] = {}
    for job in jobs:
        work[job.queue] = work.get(job.queue, 0.0) + job.gpus * job.duration_s
    unknown = sorted({*quota.min, *quota.max, *quota.weight} - set(work))
    if unknown:
        raise BadTrace(f"{unknown[0]} is not a queue of the trace (they are {', '.join(sorted(work))})")
    capacity = sum(node.has[GPU] for node in nodes)
    total = sum(work.values()) or 1.0
    leaves = sorted(work)
    quota_nodes = {ROOT: QuotaNode(ROOT, ROOT, None, children=tuple(f"{ROOT}/{leaf}" for leaf in leaves))}
    for leaf in leaves:
        most = quota.max.get(leaf)
        least = quota.min.get(leaf, int(quota.guarantee * capacity * work[leaf] / total))
        if most is not None and least > most:
            if leaf in quota.min:
                raise BadTrace(f"{leaf} is promised {least} GPUs and may use {most} at most")
            least = most
        weight = {SHARED_WEIGHTS[-1]: str(quota.weight[leaf])} if leaf in quota.weight else {}
        quota_nodes[f"{ROOT}/{leaf}"] = QuotaNode(
            f"{ROOT}/{leaf}",
            leaf,
            ROOT,
            min={GPU: least} if least else {},
            max={GPU: quota.max[leaf]} if leaf in quota.max else {},
            attributes=weight,
        )
    return QuotaTree(ROOT, quota_nodes)


def units(jobs: Sequence[TraceJob], arrivals: Arrivals, seed: int) -> list[Unit]:
    """The jobs as waiting units, by arrival. `enqueued_at` is when they come."""
    rng = random.Random(seed)
    result: list[Unit] = []
    for job in jobs:
        at = job.submit_s / arrivals.load
        if arrivals.jitter_s:
            at = max(0.0, at + rng.uniform(-arrivals.jitter_s, arrivals.jitter_s))
        walltime = None if arrivals.overestimate is None else job.duration_s * arrivals.overestimate
        result.append(
            Unit(
                id=job.id,
                name=f"{job.queue}/{job.id}",
                components=job.components,
                leaf=f"{ROOT}/{job.queue}",
                created_at=ZERO + at,
                enqueued_at=ZERO + at,
                walltime_s=walltime,
            )
        )
    result.sort(key=lambda unit: (unit.enqueued_at, unit.id))
    return result
