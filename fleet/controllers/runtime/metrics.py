"""The counters and timers of the controllers' process, for Prometheus.

Events are counted where they happen. The present state (units of each leaf, reasons, claims, members) is read out of
the newest snapshot on each request, in the thread of the server: snapshots do not change, and a decision pays nothing
for it (gauges.py). Labels are bounded, and docs/reference/metrics.md states by what.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api import buildinfo
from fleet.controllers.runtime.gauges import (
    LEAVES_MOST,
    MEMBERS_MOST,
    OTHERS,
    ModelUse,
    Shares,
    gauge,
    leaf_of,
    of_gpu_use,
    of_gpus,
    of_quota,
    of_units,
)
from fleet.controllers.runtime.refusals import Refusals
from fleet.core.model.amounts import gpus_in
from fleet.core.model.cause import CauseCode
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Unit
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot
from fleet.members.members import Closed, Members
from fleet.values.boundedvalues import BoundedValues
from fleet.values.ports import Key

disable_created_metrics()  # type: ignore[no-untyped-call]  # a further row for each counter, which says nothing that a restart does not
REASONS_MOST = 40
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)
_LAGS = (1, 2, 5, 15, 60, 300)  # the hub writes down to the second when it chose a member
_SIZES = ((0, "0"), (1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))  # GPUs at most, and the label
_LARGEST = "513+"
_GAPS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_FAILURES = {CauseCode.STARTING: "starting", CauseCode.LATE: "late", CauseCode.FAILED: "failed"}


class KeyQueue(Protocol):
    """Where the keys of a loop wait for a worker."""

    @property
    def depth(self) -> int: ...


class LoopFigures(Protocol):
    """The figures of a loop; `failures`: of keys, since it began; `aside`: keys that it cannot handle now."""

    @property
    def name(self) -> str: ...

    @property
    def failures(self) -> int: ...

    @property
    def last_error(self) -> str: ...

    @property
    def aside(self) -> Collection[Key]: ...

    @property
    def queue(self) -> KeyQueue: ...


class Metrics:
    """All metrics of one controllers process, in a registry of its own; docs/reference/metrics.md lists them."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        buildinfo.show(registry)
        self.leader = Gauge("fleet_leader", "1 while this process leads, 0 while it stands by.", registry=registry)
        self.cycles = Counter(
            "fleet_decision_cycles",
            "Looks of the decider: decided, unchanged (the plan before stands), idle (nobody waits), failed.",
            ("outcome",),
            registry=registry,
        )
        self._seconds = Histogram(
            "fleet_decision_seconds",
            "From the snapshot to the last commit of a decision.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._phases = Histogram(
            "fleet_decision_phase_seconds",
            "Time of a decision by phase.",
            ("phase",),
            registry=registry,
            buckets=_SECONDS,
        )
        self._decided_at = Gauge(
            "fleet_decision_last_timestamp_seconds", "When the decider last looked without failing.", registry=registry
        )
        self._shipped = Counter(
            "fleet_decisions", "Decisions by whose answer they are.", ("shipped",), registry=registry
        )
        self._gap = Histogram(
            "fleet_decision_gap_ratio",
            "Of decisions that the solver answered, the largest gap of a stage between its"
            " answer and the proven bound.",
            registry=registry,
            buckets=_GAPS,
        )
        self.solver = Counter("fleet_solver_answers", "Answers of the solver.", ("outcome",), registry=registry)
        self.placements = Counter("fleet_placements", "Units placed in a member.", registry=registry)
        self.claims = Counter("fleet_claims", "Claims of room that were committed.", registry=registry)
        self._waits = Histogram(
            "fleet_unit_wait_seconds",
            "From the entry into its queue to its first member, of units that got one.",
            ("leaf", "size"),
            registry=registry,
            buckets=_WAITS,
        )
        self._dispatches = Histogram(
            "fleet_member_dispatch_seconds",
            "From the choice of a member to a job that is stored there.",
            ("member",),
            registry=registry,
            buckets=_LAGS,
        )
        self._drifted = Counter(
            "fleet_member_copies_put_back",
            "Copies that somebody changed in their member, and that were put back.",
            ("member",),
            registry=registry,
        )
        self._above = Counter(
            "fleet_member_requests_above_charge",
            "Copies that asked for more in their member than their job was admitted with.",
            ("member",),
            registry=registry,
        )
        self._finished = Counter(
            "fleet_jobs_finished", "Jobs that ended, by leaf and outcome.", ("leaf", "outcome"), registry=registry
        )
        self._lost = Counter(
            "fleet_lost_gpu_seconds",
            "GPU time of work that is done again, by leaf and cause.",
            ("leaf", "reason"),
            registry=registry,
        )
        self.notifications = Counter(
            "fleet_notifications", "Tries to deliver a notification.", ("outcome",), registry=registry
        )
        self.evictions = Counter("fleet_evictions", "Units evicted from a member.", ("reason",), registry=registry)
        self.needless = Counter(
            "fleet_decider_needless_evictions",
            "Units that plans evicted though their claims needed it not.",
            registry=registry,
        )
        self.refusals = Counter(
            "fleet_commit_refusals",
            "Parts of a plan that were not committed, by what had changed meanwhile.",
            ("cause",),
            registry=registry,
        )
        self.lost_records = Counter(
            "fleet_decision_records_lost", "Decision records that could not be written.", registry=registry
        )
        self.faults = Counter(
            "fleet_decision_faults",
            "Exceptions while deciding, by what was done about them.",
            ("outcome",),
            registry=registry,
        )
        self.aside = Gauge(
            "fleet_units_aside", "Waiting units that are left out since deciding them fails.", registry=registry
        )
        self.history_revision = Gauge(
            "fleet_history_revision", "Revision up to which the history is written.", registry=registry
        )
        self.history_lag = Gauge(
            "fleet_history_lag_seconds", "How far the history is behind the log of the store.", registry=registry
        )
        self.history_failing = Gauge(
            "fleet_history_failing", "1 while the history cannot be written, else 0.", registry=registry
        )
        self._ends = Counter(
            "fleet_loop_restarts",
            "Loops that ended by an exception and were started again.",
            ("loop",),
            registry=registry,
        )
        self.looked_at = self.decided_at = 0.0  # epoch seconds: the last look without failing, the last decision
        self.ends: Tally[str] = Tally()  # by loop
        self._snapshot = Snapshot()
        self._members: Members | None = None
        self._heard: Mapping[str, float] = {}  # by member, in epoch seconds
        self._closed: Mapping[str, Sequence[Closed]] = {}  # by member
        self._gpu_use: Mapping[str, Mapping[str, ModelUse] | None] = {}  # by member and model
        self._credentials_end: dict[str, float] = {}  # of the credentials, by member, in epoch seconds
        self._shares = Shares()
        self._leaf = BoundedValues(LEAVES_MOST, OTHERS)
        self._member = BoundedValues(MEMBERS_MOST, OTHERS)
        self._reason = BoundedValues(REASONS_MOST, OTHERS)
        self._reasons: Mapping[str, Reason] = {}
        self.refused = Refusals()
        self._nodes: dict[str, tuple[int, int]] = {}  # by member: ready, and all
        self.loops: list[LoopFigures] = []  # that the metrics tell of; tests read the list
        registry.register(_ScrapeCollector(self._now))
        self._begin()

    def _begin(self) -> None:
        """Show each known outcome with 0: a series that first appears as 1 has not increased, as Prometheus sees it."""
        for counter, values in (
            (self.cycles, ("decided", "unchanged", "idle", "failed")),
            (self.refusals, ("unit", "policy", "tree", "rejected")),
            (self.solver, ("optimal", "feasible", "none", "late", "starting", "failed")),
            (self.faults, ("without_solver", "left_out", "without_reclaim", "undecided", "unread")),
            (self.notifications, ("delivered", "failed")),
        ):
            for value in values:
                counter.labels(value)

    def watch(self, loops: Iterable[LoopFigures], members: Members) -> None:
        """Tell of these loops and members from now on, and of no others."""
        self.loops = list(loops)
        self._members = members

    def ended(self, loop: str) -> None:
        """A loop ended by itself, and is started again."""
        self._ends.labels(loop).inc()
        self.ends[loop] += 1

    def see(self, snapshot: Snapshot, reasons: Mapping[str, Reason] | None = None) -> None:
        """The decider's present view; `reasons` None: those of the plan before stand."""
        self._snapshot = snapshot
        if reasons is not None:
            self._reasons = reasons

    @property
    def snapshot(self) -> Snapshot:
        """The decider's present view."""
        return self._snapshot

    def see_gpu_use(self, members: Mapping[str, Mapping[str, ModelUse] | None]) -> None:
        """The newest figures of the members that name a source, by model; None for one that tells nothing."""
        self._gpu_use = members

    def see_credentials(self, member: str, end: float | None) -> None:
        """When the hub's credentials in a member end; None: they do not say it, or the member is gone."""
        if end is None:
            self._credentials_end.pop(member, None)
        else:
            self._credentials_end[member] = end

    def see_nodes(self, member: str, nodes: tuple[int, int] | None) -> None:
        """The nodes of a member that are ready, and all of them; None: it is gone."""
        if nodes is None:
            self._nodes.pop(member, None)
        else:
            self._nodes[member] = nodes

    def looked(self, outcome: str, now: float) -> None:
        """The decider looked, and did not fail. `now`: epoch seconds."""
        self.cycles.labels(outcome).inc()
        self._decided_at.set(now)
        self.looked_at = now
        self._look_at_members(now)
        if outcome == "decided":
            self.decided_at = now

    def _look_at_members(self, now: float) -> None:
        """Members answer on the event loop alone, so scrapes get the answers of the last look."""
        members = self._members
        if members is not None:
            silent = {name: members.silent_s(name) for name in list(members.names())[:MEMBERS_MOST]}
            self._heard = {name: now - seconds for name, seconds in silent.items() if seconds is not None}
            self._closed = {name: closed for name in silent if (closed := members.closed(name))}

    def placed(self, unit: Unit, tree: QuotaTree | None, now: float) -> None:
        """A unit got a member. `now`: epoch seconds. Only a first attempt says for how long the unit waited: the time
        of entry stays over all attempts."""
        self.placements.inc()
        if not unit.attempts:
            waited = self._waits.labels(self._leaf(leaf_of(tree, unit)), size_of(gpus_in(unit.total)))
            waited.observe(max(0.0, now - (unit.enqueued_at or unit.created_at)))

    def dispatched(self, member: str, seconds: float) -> None:
        """An attempt of a job is stored in its member, so long after the choice of the member."""
        self._dispatches.labels(self._member(member)).observe(max(0.0, seconds))

    def drifted(self, member: str) -> None:
        """A copy in the member was changed there, and put back."""
        self._drifted.labels(self._member(member)).inc()

    def above_charge(self, member: str) -> None:
        """A copy in the member began to ask for more than its job was admitted with."""
        self._above.labels(self._member(member)).inc()

    def ended_job(self, leaf: str, outcome: str) -> None:
        """A job is over. `outcome`: its state in the history."""
        self._finished.labels(self._leaf(leaf), outcome).inc()

    def lost_gpu_time(self, leaf: str, reason: str, seconds: float) -> None:
        """Work that is done again took so many GPU-seconds."""
        self._lost.labels(self._leaf(leaf), self._reason(reason)).inc(seconds)

    def decided(self, plan: Plan, phases: Mapping[str, float]) -> None:
        """One decision that is carried out; `phases`: seconds by name."""
        self._shipped.labels(plan.certificate.shipped).inc()
        if plan.certificate.stages:
            self._gap.observe(max(stage.gap for stage in plan.certificate.stages))
        for phase, seconds in phases.items():
            self._phases.labels(phase).observe(seconds)
        self._seconds.observe(sum(phases.values()))

    def _now(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        yield from of_units(snapshot)
        yield from of_gpus(snapshot.members, self._closed)
        yield from of_gpu_use(self._gpu_use)
        codes = Tally(str(reason.code) for reason in list(self._reasons.values()))
        waiting = (((code,), float(count)) for code, count in sorted(codes.items()))
        yield gauge("fleet_jobs_waiting", "Waiting jobs by the code of their reason.", ("code",), waiting)
        ready = (((name,), float(snapshot.members[name].ready)) for name in sorted(snapshot.members)[:MEMBERS_MOST])
        yield gauge("fleet_member_ready", "1 for a member that is ready, else 0.", ("member",), ready)
        nodes = [
            ((name, state), float(count))
            for name, (nodes_ready, total) in sorted(self._nodes.items())[:MEMBERS_MOST]
            for state, count in (("ready", nodes_ready), ("not_ready", total - nodes_ready))
        ]
        yield gauge("fleet_member_nodes", "Nodes of a member that is ready, by state.", ("member", "state"), nodes)
        refused = (((code,), float(count)) for code, count in sorted(self.refused.by_code().items()))
        yield gauge("fleet_jobs_refused", "Jobs that could not be sent of late, by the code.", ("code",), refused)
        yield gauge(
            "fleet_member_last_heard_timestamp_seconds",
            "When a member last showed life, in epoch seconds.",
            ("member",),
            (((name,), at) for name, at in sorted(self._heard.items())),
        )
        yield gauge(
            "fleet_member_credentials_expiry_timestamp_seconds",
            "When the hub's credentials in a member end.",
            ("member",),
            (((name,), end) for name, end in sorted(self._credentials_end.items())[:MEMBERS_MOST]),
        )
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
        yield from of_quota(snapshot, self._shares)  # last: what it begins is not to slow the rest


class CountedSolver:
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


class _ScrapeCollector(Collector):
    def __init__(self, now: Callable[[], Iterator[Metric]]) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        return self._now()


def size_of(gpus: int) -> str:
    """The class of a unit by its GPUs."""
    return next((label for most, label in _SIZES if gpus <= most), _LARGEST)


def outcome_of(answer: Answer) -> str:
    """`optimal`: all stages are proven; `feasible`: not all; `none`: no answer in its time; `late`: killed at its
    deadline; `starting`: its process was not up yet; `failed`: its process ended."""
    if answer.cause is not None and answer.cause.code in _FAILURES:
        return _FAILURES[answer.cause.code]
    if answer.empty:
        return "none"
    return "optimal" if all(stage.status == "OPTIMAL" for stage in answer.stages) else "feasible"
