"""The counters and timers of the controllers' process, for Prometheus.

Events are counted where they happen. The present state (units of each leaf, reasons, claims, members) is read out of
the newest snapshot on each request, in the thread of the server: snapshots do not change, and a decision pays nothing
for it. Labels are bounded: a leaf that users make up is "(unknown)", and beyond LEAVES_MOST they share one row.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleet.model.plan import Plan
from fleet.model.reason import Reason
from fleet.model.unit import Phase, Unit
from fleet.placement.problem import Answer, Problem, Solver, VictimProblem
from fleet.ports import Key
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Snapshot
from fleet.solver.process import FAILED, LATE, STARTING

LEAVES_MOST = 200
MEMBERS_MOST = 1_000
OUTSIDE, UNKNOWN, OTHERS = "(none)", "(unknown)", "(others)"  # no quota; not in the tree; the leaves beyond the most
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_GAPS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_WHYS = ((STARTING, "starting"), (LATE, "late"), (FAILED, "failed"))


class Queue(Protocol):
    """Where the keys of a loop wait for a worker."""

    @property
    def depth(self) -> int: ...


class Loop(Protocol):
    """The figures of a loop; `failures`: of keys, since it began; `aside`: keys that it cannot handle now."""

    @property
    def name(self) -> str: ...

    @property
    def failures(self) -> int: ...

    @property
    def aside(self) -> Collection[Key]: ...

    @property
    def queue(self) -> Queue: ...


class Metrics:
    """All metrics of one controllers process, in a registry of its own; docs/reference/metrics.md lists them."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.leader = Gauge("fleet_leader", "1 while this process leads, 0 while it stands by.", registry=registry)
        self.cycles = Counter(
            "fleet_decision_cycles", "Looks of the decider: decided, unchanged (the plan before stands), idle (nobody"
            " waits), failed.", ("outcome",), registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "fleet_decision_seconds", "From the snapshot to the last commit of a decision.", registry=registry,
            buckets=_SECONDS,
        )  # fmt: skip
        self._phases = Histogram(
            "fleet_decision_phase_seconds", "Time of a decision by phase.", ("phase",), registry=registry,
            buckets=_SECONDS,
        )  # fmt: skip
        self._decided_at = Gauge(
            "fleet_decision_last_timestamp_seconds", "When the decider last looked without failing.", registry=registry
        )
        self._shipped = Counter(
            "fleet_decisions", "Decisions by whose answer they are.", ("shipped",), registry=registry
        )
        self._gap = Histogram(
            "fleet_decision_gap_ratio", "Of decisions that the solver answered, the largest gap of a stage between its"
            " answer and the proven bound.", registry=registry, buckets=_GAPS,
        )  # fmt: skip
        self.solver = Counter("fleet_solver_answers", "Answers of the solver.", ("outcome",), registry=registry)
        self.placements = Counter("fleet_placements", "Units placed in a member.", registry=registry)
        self.claims = Counter("fleet_claims", "Claims of room that were committed.", registry=registry)
        self.evictions = Counter("fleet_evictions", "Units evicted from a member.", ("reason",), registry=registry)
        self.needless = Counter(
            "fleet_decider_needless_evictions", "Units that plans evicted though their claims needed it not.",
            registry=registry,
        )  # fmt: skip
        self.refusals = Counter(
            "fleet_commit_refusals", "Parts of a plan that were not committed, by what had changed meanwhile.",
            ("cause",), registry=registry,
        )  # fmt: skip
        self.lost_records = Counter(
            "fleet_decision_records_lost", "Decision records that could not be written.", registry=registry
        )
        self.faults = Counter(
            "fleet_decision_faults", "Exceptions while deciding, by what was done about them.", ("outcome",),
            registry=registry,
        )  # fmt: skip
        self.aside = Gauge(
            "fleet_units_aside", "Waiting units that are left out since deciding them fails.", registry=registry
        )
        self._ends = Counter(
            "fleet_loop_restarts", "Loops that ended by an exception and were started again.", ("loop",),
            registry=registry,
        )  # fmt: skip
        self.looked_at = self.decided_at = 0.0  # epoch seconds: the last look without failing, the last decision
        self.ends: Tally[str] = Tally()  # by loop
        self._snapshot = Snapshot()
        self._reasons: Mapping[str, Reason] = {}
        self.loops: list[Loop] = []  # that the metrics tell of; tests read the list
        registry.register(_Scraped(self._now))
        self._begin()

    def _begin(self) -> None:
        """Show each known outcome with 0: a series that first appears as 1 has not increased, as Prometheus sees it."""
        for counter, values in (
            (self.cycles, ("decided", "unchanged", "idle", "failed")),
            (self.refusals, ("unit", "policy", "tree", "rejected")),
            (self.solver, ("optimal", "feasible", "none", "late", "starting", "failed")),
            (self.faults, ("without_solver", "left_out", "without_reclaim", "undecided", "unread")),
        ):
            for value in values:
                counter.labels(value)

    def watch(self, loops: Iterable[Loop]) -> None:
        """Tell of these loops from now on, and of no others."""
        self.loops = list(loops)

    def ended(self, loop: str) -> None:
        """A loop ended by itself, and is started again."""
        self._ends.labels(loop).inc()
        self.ends[loop] += 1

    def see(self, snapshot: Snapshot, reasons: Mapping[str, Reason] | None = None) -> None:
        """The decider's present view; `reasons` None: those of the plan before stand."""
        self._snapshot = snapshot
        if reasons is not None:
            self._reasons = reasons

    def looked(self, outcome: str, now: float) -> None:
        """The decider looked, and did not fail. `now`: epoch seconds."""
        self.cycles.labels(outcome).inc()
        self._decided_at.set(now)
        self.looked_at = now
        if outcome == "decided":
            self.decided_at = now

    def decided(self, plan: Plan, phases: Mapping[str, float]) -> None:
        """One decision that is carried out; `phases`: seconds by name."""
        self._shipped.labels(plan.certificate.shipped).inc()
        if plan.certificate.stages:
            self._gap.observe(max(stage.gap for stage in plan.certificate.stages))
        for phase, seconds in phases.items():
            self._phases.labels(phase).observe(seconds)
        self._seconds.observe(sum(phases.values()))

    def _now(self) -> Iterator[Metric]:
        yield from _of_units(self._snapshot)
        waiting = GaugeMetricFamily("fleet_jobs_waiting", "Waiting jobs by the code of their reason.", labels=["code"])
        for code, count in sorted(Tally(str(reason.code) for reason in list(self._reasons.values())).items()):
            waiting.add_metric([code], count)
        yield waiting
        ready = GaugeMetricFamily("fleet_member_ready", "1 for a member that is ready, else 0.", labels=["member"])
        for name in sorted(self._snapshot.members)[:MEMBERS_MOST]:
            ready.add_metric([name], int(self._snapshot.members[name].ready))
        yield ready
        failures = CounterMetricFamily(
            "fleet_reconcile_failures", "Keys of a loop that failed, to be tried again.", labels=["loop"]
        )
        depth = GaugeMetricFamily("fleet_queue_depth", "Keys of a loop that wait for a worker.", labels=["loop"])
        aside = GaugeMetricFamily(
            "fleet_keys_aside", "Objects that a loop cannot handle and has set aside.", labels=["loop"]
        )
        for loop in self.loops:
            failures.add_metric([loop.name], loop.failures)
            depth.add_metric([loop.name], loop.queue.depth)
            aside.add_metric([loop.name], len(loop.aside))
        yield failures
        yield depth
        yield aside


class Counted:
    """A solver whose answers are counted."""

    def __init__(self, solver: Solver, metrics: Metrics) -> None:
        self._solver, self._metrics = solver, metrics

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        answer = self._solver.solve(problem, seed=seed, limit_s=limit_s)
        self._metrics.solver.labels(outcome_of(answer)).inc()
        return answer


class Phases:
    """The seconds that each phase of one decision took. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float], first: str, began: float) -> None:
        self._clock = clock
        self._phase, self._since = first, began
        self.seconds: dict[str, float] = {}

    def begin(self, phase: str) -> None:
        """The one before ends now."""
        now = self._clock()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def end(self) -> Mapping[str, float]:
        self.begin(self._phase)
        return self.seconds


class _Scraped(Collector):
    def __init__(self, now: Callable[[], Iterator[Metric]]) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        return self._now()


def outcome_of(answer: Answer) -> str:
    """`optimal`: all stages are proven; `feasible`: not all; `none`: no answer in its time; `late`: killed at its
    deadline; `starting`: its process was not up yet; `failed`: its process ended."""
    for text, outcome in _WHYS:
        if answer.why.startswith(text):
            return outcome
    if answer.empty:
        return "none"
    return "optimal" if all(stage.status == "OPTIMAL" for stage in answer.stages) else "feasible"


def _of_units(snapshot: Snapshot) -> Iterator[Metric]:
    units: Sequence[Unit] = list(snapshot.units.values())
    tally = Tally((_leaf(snapshot.tree, unit), unit.phase) for unit in units)
    sizes: Tally[str] = Tally()
    for (leaf, _), count in tally.items():
        sizes[leaf] += count
    shown = {leaf for leaf, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:LEAVES_MOST]}
    rows: Tally[tuple[str, str]] = Tally()
    for (leaf, phase), count in tally.items():
        rows[leaf if leaf in shown else OTHERS, phase.value.lower()] += count
    found = GaugeMetricFamily("fleet_units", "Units by leaf of the quota tree and phase.", labels=["leaf", "phase"])
    for (leaf, phase_name), count in sorted(rows.items()):
        found.add_metric([leaf, phase_name], count)
    yield found
    waiting = [unit for unit in units if unit.phase is Phase.WAITING]
    claims = sum(unit.claim is not None for unit in waiting)
    yield GaugeMetricFamily("fleet_units_claiming", "Waiting units that room is kept for.", value=claims)
    heads = sum(unit.head is not None for unit in waiting)
    yield GaugeMetricFamily("fleet_units_collecting", "Waiting units that room is collected for.", value=heads)


def _leaf(tree: QuotaTree | None, unit: Unit) -> str:
    if unit.leaf is None:
        return OUTSIDE
    return unit.leaf if tree is not None and unit.leaf in tree.nodes else UNKNOWN
