"""One replay: a trace, members, a policy and a seed in; everything that happened out.

A replay is a `Forward` run from an empty fleet, whose units come as the trace says and run as long as the trace says. A
job that is evicted starts again from its last checkpoint, of which there is one every `checkpoint_s` of its running (0:
none). How the nodes look is sampled; all else follows from the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from fleet.core.foresee.forward import Forward, Stop, UnitEvent, UnitEventKind
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.member import Member
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Unit
from fleet.core.placement.problem import Solver
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from fleet.simulate.replay.kept import KeptGpus
from fleet.simulate.replay.policies import Policy, decider
from fleet.simulate.replay.trace import GPU, GPUS_PER_POD, TraceJob
from fleet.simulate.replay.world import ZERO

RECLAIMING = Config(reclaim=True)
EVENTS_PER_JOB = 400  # a replay that needs more is stopped


@dataclass(frozen=True, slots=True)
class Options:
    """Times in seconds, of the replay's clock."""

    policy: Policy = Policy.fleet
    seed: int = 0
    config: Config = RECLAIMING
    cycle_s: float = 30.0
    tick_s: float = 300.0
    grace_s: float = 30.0
    checkpoint_s: float = 3600.0
    sample_s: float | None = None  # None: see `sample_every`


@dataclass(frozen=True, slots=True)
class Sample:
    """`seconds`: for how long it stands. `whole`: nodes with at least 8 GPUs are counted only. GPUs that they have,
    that are free, and that are free in whole eights."""

    at: float
    seconds: float
    whole: int
    free: int
    in_eights: int


@dataclass(slots=True)
class ReplayResult:
    """`stopped` is DONE when every job ended. `decided_s`: real seconds of every decision, `shipped`: how often which
    answer was taken ("cp-sat", "greedy: AsGood"); both empty when the real controllers decided, and then `kept_gpu_s`
    is None."""

    jobs: dict[str, TraceJob]
    arrivals: dict[str, float]
    gpus: int
    log: list[UnitEvent]
    stopped: Stop
    now: float
    samples: list[Sample] = field(default_factory=list)
    decisions: int = 0
    decided_s: list[float] = field(default_factory=list)
    shipped: dict[str, int] = field(default_factory=dict)
    lost_gpu_s: float = 0.0
    kept_gpu_s: float | None = None


class JobProgress:
    """How much of every job is done."""

    def __init__(self, jobs: Mapping[str, TraceJob], checkpoint_s: float) -> None:
        self._jobs = jobs
        self._checkpoint_s = checkpoint_s
        self._kept: dict[str, float] = {}

    def left_s(self, key: str) -> float:
        """How long the job still runs from its next start on."""
        return self._jobs[key].duration_s - self._kept.get(key, 0.0)

    def evicted(self, key: str, ran_s: float) -> float:
        """The seconds that are lost."""
        done = self._kept.get(key, 0.0) + ran_s
        kept = done // self._checkpoint_s * self._checkpoint_s if self._checkpoint_s else 0.0
        self._kept[key] = max(kept, self._kept.get(key, 0.0))
        return done - self._kept[key]


class _TimedDecider:
    """A decider whose decisions are timed, and counted by the answer that was taken."""

    def __init__(self, chosen: Callable[[Forward], Plan]) -> None:
        self._chosen = chosen
        self.decided_s: list[float] = []
        self.shipped: dict[str, int] = {}
        self.idle = KeptGpus()

    def __call__(self, run: Forward) -> Plan:
        began = time.perf_counter()
        plan = self._chosen(run)
        self.decided_s.append(time.perf_counter() - began)
        self.idle.see(run, plan)
        certificate = plan.certificate
        codes = ", ".join(cause.code for cause in certificate.causes)
        how = certificate.shipped if certificate.shipped != "greedy" else f"greedy: {codes}"
        self.shipped[how] = self.shipped.get(how, 0) + 1
        return plan


def replay(
    jobs: Sequence[TraceJob],
    units: Sequence[Unit],
    members: Sequence[Member],
    tree: QuotaTree | None,
    options: Options,
    solver: Solver | None = None,
    progress: Callable[[int], None] | None = None,
) -> ReplayResult:
    """`units` are the jobs as they arrive (see world.units). `progress` is told how many jobs have ended."""
    by_id = {job.id: job for job in jobs}
    work = JobProgress(by_id, options.checkpoint_s)
    timed = _TimedDecider(decider(options.policy, options.seed, solver))
    quota = tree if options.policy is Policy.fleet else None
    snapshot = Snapshot(quota, {}, {member.name: member for member in members}, options.config)
    samples: list[Sample] = []
    every = options.sample_s or sample_every(units)
    due = ZERO

    def look(until: float) -> None:
        """At what is so until then, for as many samples as are due meanwhile."""
        nonlocal due
        if due < until:
            seconds = ceil((until - due) / every) * every
            samples.append(sample(run.nodes.values(), due, seconds))
            due += seconds

    run = Forward(
        snapshot,
        now=ZERO,
        decider=timed,
        runs_s=lambda unit, now: work.left_s(unit.id),
        grace_s=options.grace_s,
        cycle_s=options.cycle_s,
        tick_s=options.tick_s,
        gangs=units,
        passes=look,
    )
    for unit in units:
        run.submit(unit.enqueued_at, unit)
    started: dict[str, float] = {}
    position, ended, lost = 0, 0, 0.0
    for _ in run.steps(most_events=EVENTS_PER_JOB * len(units) + 10_000, until=float("inf")):
        for event in run.log[position:]:
            if event.what is UnitEventKind.STARTED:
                started[event.unit] = event.at
            elif event.what is UnitEventKind.EVICTED:
                lost += work.evicted(event.unit, event.at - started.get(event.unit, event.at)) * by_id[event.unit].gpus
            elif event.what is UnitEventKind.ENDED:
                ended += 1
        position = len(run.log)
        if progress is not None:
            progress(ended)
    if progress is not None:
        progress(sum(event.what is UnitEventKind.ENDED for event in run.log))
    return ReplayResult(
        by_id,
        {unit.id: unit.enqueued_at for unit in units},
        gpus_of(members),
        run.log,
        run.stopped,
        run.now,
        samples,
        len(timed.decided_s),
        timed.decided_s,
        timed.shipped,
        lost,
        timed.idle.gpu_s,
    )


def sample_every(units: Sequence[Unit]) -> float:
    """Seconds between samples: a thousandth of the time in which jobs arrive, between a second and an hour."""
    at = [unit.enqueued_at for unit in units]
    return min(3600.0, max(1.0, (max(at) - min(at)) / 1000)) if at else 3600.0


def gpus_of(members: Sequence[Member]) -> int:
    """Free GPUs of all nodes."""
    return sum(free[GPU] * nodes for member in members for pool in member.pools for free, nodes in pool.free)


def sample(members: Iterable[ForwardNodes], at: float, seconds: float) -> Sample:
    """The GPUs of nodes with at least 8: all, free, and free in whole pods of 8."""
    whole = free = eights = 0
    for nodes in members:
        for pool in nodes.member.pools:
            if pool.allocatable[GPU] >= GPUS_PER_POD:
                for vector, count in pool.free:
                    whole += pool.allocatable[GPU] * count
                    free += vector[GPU] * count
                    eights += vector[GPU] // GPUS_PER_POD * GPUS_PER_POD * count
    return Sample(at, seconds, whole, free, eights)
