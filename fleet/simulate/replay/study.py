"""A whole study: read the files, find the load if that is asked for, replay every policy with every seed, write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleet.core.foresee.forward import UnitEventKind
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.member import Member
from fleet.core.model.unit import Unit
from fleet.core.placement.problem import Solver
from fleet.core.quota.tree import QuotaTree
from fleet.simulate.replay import compare, full, metrics, plots, trace, world
from fleet.simulate.replay.policies import Policy
from fleet.simulate.replay.run import Options, ReplayResult, replay
from fleet.simulate.replay.table import BadTrace
from fleet.simulate.replay.trace import GPU, TraceJob

VERSION = "fleet.replay/v1"
Tell = Callable[[str, int, int], None]
"""Told what is going on, how many jobs have ended, and of how many."""


@dataclass(frozen=True, slots=True)
class Study:
    """`options.policy` and `options.seed` are set for each run. `begin_s`, `until_s`: of the trace's own clock."""

    trace: Path
    nodes: Path
    members: int = 8
    policies: tuple[Policy, ...] = (Policy.fleet,)
    seeds: tuple[int, ...] = (0,)
    begin_s: float = 0.0
    until_s: float | None = None
    limit: int = 0
    arrivals: world.Arrivals = field(default_factory=world.Arrivals)
    quota: world.Quota = field(default_factory=world.Quota)
    options: Options = field(default_factory=Options)
    calibrate_wait_s: float | None = None
    full: bool = False  # the policy fleet through the real controllers
    out: Path | None = None


def run_all(study: Study, solver: Solver | None, tell: Tell) -> dict[str, Any]:
    """The document that `fleet replay --json` prints. Raises BadTrace, and OSError where it cannot write."""
    if study.out is not None:
        study.out.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(study)
    nodes = world.read_nodes(study.nodes)
    tree = world.tree(jobs, nodes, study.quota)
    _must_fit(jobs, nodes)
    for seed in study.seeds:
        _must_fit_whole(jobs, world.split(nodes, study.members, seed), seed)
    if study.full and Policy.fleet not in study.policies:
        raise BadTrace(f"the real controllers decide as {Policy.fleet} only, which is not among the policies")
    if study.full and len(jobs) > full.JOBS_MAX:
        raise BadTrace(f"{len(jobs)} jobs are too many for the real controllers: {full.JOBS_MAX} at most")

    def once(policy: Policy, seed: int, arrivals: world.Arrivals, what: str) -> ReplayResult:
        through = full.replay_fully if study.full and policy is Policy.fleet else replay
        return through(
            jobs,
            world.units(jobs, arrivals, seed),
            world.split(nodes, study.members, seed),
            tree,
            replace(study.options, policy=policy, seed=seed),
            solver,
            lambda ended: tell(what, ended, len(jobs)),
        )

    arrivals = study.arrivals
    if study.calibrate_wait_s is not None:

        def mean_wait(load: float) -> float:
            done = once(Policy.fifo, study.seeds[0], replace(arrivals, load=load), f"fifo at load {load:.3f}")
            return sum(_waits(done)) / len(jobs)

        arrivals = replace(arrivals, load=compare.calibrate(mean_wait, study.calibrate_wait_s))
    reports: dict[str, list[dict[str, Any]]] = {policy: [] for policy in study.policies}
    lines: dict[str, plots.PolicyCurves] = {}
    for seed in study.seeds:
        for policy in study.policies:
            done = once(policy, seed, arrivals, f"{policy}, seed {seed}")
            steps = metrics.series(done, tree)
            reports[policy].append({"seed": seed, **metrics.report(done, tree, steps)})
            lines.setdefault(policy, plots.PolicyCurves(steps, done.gpus, _waits(done)))
    document: dict[str, Any] = {
        "apiVersion": VERSION,
        "world": {**_world(study, nodes, tree, arrivals), "jobs": len(jobs), "solver": solver is not None},
        **compare.summarised(reports),
        "runs": reports,
        "written": [],
    }
    if study.out is not None:
        paths = [*plots.write(lines, study.out), study.out / "replay.json"]
        document["written"] = [str(path) for path in paths]
        paths[-1].write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return document


def _world(study: Study, nodes: list[world.WorldNode], tree: QuotaTree, arrivals: world.Arrivals) -> dict[str, Any]:
    """The settings of the runs."""
    return {
        "trace": study.trace.name,
        "nodes_file": study.nodes.name,
        "nodes": len(nodes),
        "gpus": sum(node.has[GPU] for node in nodes),
        "members": study.members,
        "load": arrivals.load,
        "jitter_s": arrivals.jitter_s,
        "overestimate": arrivals.overestimate,
        "seeds": list(study.seeds),
        "min": {node.name: node.min.get(GPU, 0) for node in tree.nodes.values() if node.parent is not None},
        "full": study.full,
        "reclaim": study.options.config.reclaim,
        "protection_s": study.options.config.protection_s,
        "head_after_s": study.options.config.head_after_s,
        "guarantee_delay_s": study.options.config.guarantee_delay_s,
        "cycle_s": study.options.cycle_s,
        "tick_s": study.options.tick_s,
        "grace_s": study.options.grace_s,
        "checkpoint_s": study.options.checkpoint_s,
    }


def _jobs(study: Study) -> list[TraceJob]:
    every = trace.read(study.trace)
    end = study.until_s if study.until_s is not None else float("inf")
    chosen = [job for job in every if study.begin_s <= job.submit_s < end]
    chosen = chosen[: study.limit] if study.limit else chosen
    if not chosen:
        raise BadTrace(f"{study.trace}: no job was submitted in the time that is looked at")
    first = chosen[0].submit_s
    return [replace(job, submit_s=job.submit_s - first) for job in chosen]


def _must_fit(jobs: list[TraceJob], nodes: list[world.WorldNode]) -> None:
    """Every pod fits some empty node: with strict order, a pod that does not would stop all jobs for ever."""
    for job in jobs:
        for part in job.components:
            if not any(part.requests.fits(node.has) for node in nodes):
                asks = ", ".join(f"{amount} {name}" for name, amount in part.requests.items_)
                raise BadTrace(f"no node is large enough for a pod of {job.id} ({asks})")


def _must_fit_whole(jobs: list[TraceJob], members: list[Member], seed: int) -> None:
    """Every gang fits some empty member: a gang that never starts stops all others, or makes the waits of the others
    look short."""
    units = {job.components: Unit(job.id, job.id, job.components) for job in reversed(jobs)}
    empty = [ForwardNodes(member, units.values()) for member in members]
    for job in jobs:
        if units[job.components].id == job.id and not any(nodes.fits(units[job.components]) for nodes in empty):
            raise BadTrace(
                f"no member is large enough for {job.id} ({job.gpus} GPUs) with seed {seed}: use fewer --members"
            )


def _waits(done: ReplayResult) -> list[float]:
    first: dict[str, float] = {}
    for event in done.log:
        if event.what is UnitEventKind.STARTED:
            first.setdefault(event.unit, event.at)
    return [at - done.arrivals[key] for key, at in first.items()]
