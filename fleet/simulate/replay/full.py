"""A replay through the real controllers: jobs are objects on a hub in memory, and every loop of the hub runs.

The hub's clock is virtual (fleet/simulate/virtual.py), its store in memory, its members `Hosts`. Each queue of the
trace is a namespace on a leaf, with a policy that queues PyTorchJobs; each job is a PyTorchJob that is created when it
arrives and deleted a minute after its end. The log is the same as that of a replay of the core alone, and so are the
figures. The hub's own rhythm decides how often decisions are made.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from api.engine.registry import Registry
from api.loops.controller import run_all
from api.objects.objects import Objects
from api.objects.writing import Options as Write
from api.objects.writing import User
from api.store.memory import MemoryStore
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.decide.loop import DecideLoop
from fleet.controllers.manager import build_loops
from fleet.controllers.runtime.hub import ControllerConfig, Hub
from fleet.core.foresee.forward import Stop, UnitEvent, UnitEventKind
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.unit import Component, Unit
from fleet.core.placement.problem import Solver
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config
from fleet.kinds import interpreter_of
from fleet.simulate.replay.hosts import Hosts
from fleet.simulate.replay.run import JobProgress, Options, ReplayResult, Sample, gpus_of, sample, sample_every
from fleet.simulate.replay.trace import GPU, TraceJob
from fleet.simulate.replay.world import ROOT, ZERO
from fleet.simulate.virtual import VirtualClock, run
from fleet.values.ports import Body
from fleet.wellknown import CLUSTER, KUBEFLOW, POLICY, QUOTA, TREE_NAMESPACE

JOBS_MAX = 5000
KEPT_S = 60.0  # from a job's end until its object is deleted
STUCK_S = 30 * 86_400.0  # without anything happening
SAMPLE_S = 600.0  # at least
SWEEP_S = 3600.0
PODS = 110  # on a node
WHOLE_LOG = 2**40  # events, and bytes: more than a replay has
HUB = "replay"
_USER = Write(user=User("replay", ("system:masters",)), manager="fleet-replay", field_validation="Ignore")


class _Ids:
    """Ids by counting, so that two replays are alike."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def uid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"

    def suffix(self) -> str:
        number, text = next(self._numbers), ""
        for _ in range(5):
            number, digit = divmod(number, 27)
            text += "bcdfghjklmnpqrstvwxz2456789"[digit]
        return text


@dataclass(slots=True)
class _ReplayLog:
    """Writes the log. Jobs are known to the hub as namespace/name."""

    jobs: Mapping[tuple[str, str], TraceJob]
    work: JobProgress
    clock: VirtualClock
    progress: Callable[[int], None]
    log: list[UnitEvent] = field(default_factory=list)
    ends: asyncio.Queue[tuple[float, tuple[str, str]]] = field(default_factory=asyncio.Queue)
    running: dict[str, float] = field(default_factory=dict)  # since when
    done: int = 0
    lost_gpu_s: float = 0.0

    def note(self, what: UnitEventKind, job: TraceJob, member: str = "") -> None:
        self.log.append(UnitEvent(self.clock.now(), what, job.id, member))

    def started(self, job: tuple[str, str], member: str) -> float:
        found = self.jobs[job]
        self.note(UnitEventKind.STARTED, found, member)
        self.running[found.id] = self.clock.now()
        return self.work.left_s(found.id)

    def ended(self, job: tuple[str, str], member: str) -> None:
        found = self.jobs[job]
        self.note(UnitEventKind.ENDED, found, member)
        del self.running[found.id]
        self.ends.put_nowait((self.clock.now(), job))
        self.done += 1
        self.progress(self.done)

    def evicted(self, job: tuple[str, str], member: str) -> None:
        found = self.jobs[job]
        self.note(UnitEventKind.EVICTED, found, member)
        ran_s = self.clock.now() - self.running.pop(found.id)
        self.lost_gpu_s += self.work.evicted(found.id, ran_s) * found.gpus

    def left(self, job: tuple[str, str], member: str) -> None:
        self.note(UnitEventKind.LEFT, self.jobs[job], member)


def replay_fully(
    jobs: Sequence[TraceJob],
    units: Sequence[Unit],
    members: Sequence[Member],
    tree: QuotaTree,
    options: Options,
    solver: Solver | None = None,
    progress: Callable[[int], None] | None = None,
    after: Callable[[Hub], None] | None = None,
) -> ReplayResult:
    """As `run.replay`, with the policy fleet. `options.cycle_s` and `tick_s` do not count here. `after` gets the hub at
    the end, with the whole log of its store."""
    tell = progress or (lambda ended: None)
    return run(_replay({job.id: job for job in jobs}, units, members, tree, options, solver, tell, after))


@dataclass(slots=True)
class _Users:
    """An administrator who sets the hub up, and users who submit the jobs of the trace and remove finished ones."""

    objects: Objects
    registry: Registry
    clock: VirtualClock
    recorder: _ReplayLog

    async def create(self, body: Body) -> None:
        kind = self.registry.kind_of(body["apiVersion"], body["kind"])
        assert kind is not None
        await self.objects.create(kind, body["metadata"].get("namespace", ""), body, _USER)

    async def set_up(self, tree: QuotaTree, spaces: Mapping[str, str], members: Sequence[Member]) -> None:
        """Namespaces, members, the tree and a policy in each of `spaces` (by path of its leaf)."""
        for namespace in (TREE_NAMESPACE, *spaces.values()):
            await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for member in members:
            meta = {"name": member.name}
            await self.create(
                {"apiVersion": f"{CLUSTER}/v1alpha1", "kind": "Cluster", "metadata": meta, "spec": {"syncMode": "Push"}}
            )
        await self.create(_tree(tree, spaces, gpus_of(members)))
        for namespace in spaces.values():
            await self.create(_policy(namespace))

    async def submit(self, units: Iterable[Unit], bodies: Mapping[str, Body], jobs: Mapping[str, TraceJob]) -> None:
        """Create the body of each unit, in order of arrival, when its time comes."""
        for unit in units:
            await self.clock.sleep(max(0.0, unit.enqueued_at - self.clock.now()))
            self.recorder.note(UnitEventKind.SUBMITTED, jobs[unit.id])
            await self.create(bodies[unit.id])

    async def remove(self, jobs: int) -> None:
        """Delete so many jobs, each some time after its end."""
        for _ in range(jobs):
            at, job = await self.recorder.ends.get()
            await self.clock.sleep(max(0.0, at + KEPT_S - self.clock.now()))
            await self.objects.delete(self.registry.need(KUBEFLOW, "pytorchjobs"), *job, _USER)


async def _sampled(hosts: Hosts, recorder: _ReplayLog, every: float, samples: list[Sample]) -> None:
    """Take samples until the replay is stuck."""
    clock, last = recorder.clock, ZERO
    while clock.now() - last <= STUCK_S or recorder.running:
        last = recorder.log[-1].at if recorder.log else last
        samples.append(sample(hosts.rooms, clock.now(), every))
        await clock.sleep(every)


async def _replay(
    jobs: Mapping[str, TraceJob],
    units: Sequence[Unit],
    members: Sequence[Member],
    tree: QuotaTree,
    options: Options,
    solver: Solver | None,
    progress: Callable[[int], None],
    after: Callable[[Hub], None] | None,
) -> ReplayResult:
    clock = VirtualClock(ZERO)
    spaces = {path: f"queue-{number}" for number, path in enumerate(tree.nodes[tree.root].children)}
    names = {unit.id: (spaces[unit.leaf or ""], f"job-{number}") for number, unit in enumerate(units)}
    bodies = {unit.id: _job(*names[unit.id], unit.components) for unit in units}
    recorder = _ReplayLog(
        {names[key]: job for key, job in jobs.items()}, JobProgress(jobs, options.checkpoint_s), clock, progress
    )
    hosts = Hosts([_taking_pods(m) for m in members], _as_seen(bodies.values()), HUB, clock, recorder, options.grace_s)
    bounds = {"max_events": WHOLE_LOG, "max_log_bytes": WHOLE_LOG} if after is not None else {}
    store, registry, ids = MemoryStore(clock, **bounds), Registry(load_kinds()), _Ids()
    objects = Objects(store, registry, clock, ids, rules=rules(), fill=filled)
    hub = Hub(store, objects, registry, hosts, clock, ids, HUB, config=_config(options.config))
    users = _Users(objects, registry, clock, recorder)
    await users.set_up(tree, spaces, members)
    samples: list[Sample] = []
    every = options.sample_s or max(SAMPLE_S, sample_every(units))  # each sample wakes the whole hub
    stop = asyncio.Event()
    everything = asyncio.gather(users.submit(units, bodies, jobs), users.remove(len(jobs)))
    loops = build_loops(hub, solver)
    looking = asyncio.create_task(_sampled(hosts, recorder, every, samples))
    controllers = asyncio.create_task(run_all(loops, stop))
    try:
        await asyncio.wait((everything, looking, controllers), return_when=asyncio.FIRST_COMPLETED)
    finally:  # also when it is interrupted
        stopped = Stop.DONE if everything.done() else Stop.STUCK
        stop.set()
        for task in (everything, looking):
            task.cancel()
        results = await asyncio.gather(everything, looking, controllers, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
    if after is not None:
        after(hub)
    decisions = sum(loop.cycles for loop in loops if isinstance(loop, DecideLoop))
    return ReplayResult(
        dict(jobs),
        {unit.id: unit.enqueued_at for unit in units},
        gpus_of(members),
        recorder.log,
        stopped,
        clock.now(),
        samples,
        decisions,
        lost_gpu_s=recorder.lost_gpu_s,
    )


def _config(core: Config) -> ControllerConfig:
    return ControllerConfig(
        reclaim=core.reclaim,
        protection_s=core.protection_s,
        claim_s=core.claim_s,
        head_after_s=core.head_after_s,
        guarantee_delay_s=core.guarantee_delay_s,
        sweep_s=SWEEP_S,
        record_decisions=False,
    )


def _taking_pods(member: Member) -> Member:
    """The hub counts pods, too; a trace's nodes do not say how many they take."""
    pods = Amounts.of({"pods": PODS})
    pools = (
        replace(
            pool,
            free=tuple((free.plus(pods), nodes) for free, nodes in pool.free),
            allocatable=pool.allocatable.plus(pods),
        )
        for pool in member.pools
    )
    return replace(member, pools=tuple(pools))


def _as_seen(bodies: Iterable[Body]) -> list[Unit]:
    """A unit of every shape that the hub will make of these jobs."""
    shapes: dict[tuple[Component, ...], None] = {}
    for body in bodies:
        interpreter = interpreter_of(body["apiVersion"], body["kind"])
        assert interpreter is not None
        shapes[interpreter.components(body)] = None
    return [Unit("", "", components) for components in shapes]


def _tree(tree: QuotaTree, spaces: Mapping[str, str], gpus: int) -> Body:
    children = [
        {
            "name": tree.nodes[path].name,
            "min": dict(tree.nodes[path].min),
            "max": dict(tree.nodes[path].max),
            "attributes": dict(tree.nodes[path].attributes),
            "namespaces": [namespace],
        }
        for path, namespace in spaces.items()
    ]
    return {
        "apiVersion": f"{QUOTA}/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": TREE_NAMESPACE},
        "spec": {"root": {"name": ROOT, "min": {GPU: gpus}, "max": {GPU: gpus}, "children": children}},
    }


def _policy(namespace: str) -> Body:
    return {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "replay", "namespace": namespace},
        "spec": {
            "suspension": {"scheduling": True},
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
            "resourceSelectors": [{"apiVersion": f"{KUBEFLOW}/v1", "kind": "PyTorchJob"}],
        },
    }


def _job(namespace: str, name: str, components: Sequence[Component]) -> Body:
    """One pod of the gang is the master, the others are workers."""
    first, *others = [part for part in reversed(components) for _ in range(part.replicas)]
    replicas = {"Master": {"replicas": 1, "template": _template(first)}}
    if others:
        replicas["Worker"] = {"replicas": len(others), "template": _template(others[0])}
    return {
        "apiVersion": f"{KUBEFLOW}/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def _template(part: Component) -> dict[str, Any]:
    asks = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in part.requests.items_}
    container = {"name": "pytorch", "image": "trace", "resources": {"limits": asks, "requests": asks}}
    spec: dict[str, Any] = {"containers": [container]}
    if part.claim.affinity:
        terms = [
            {"matchExpressions": [{"key": t.key, "operator": t.operator, "values": list(t.values)} for t in together]}
            for together in part.claim.affinity
        ]
        needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": needed}
    return {"spec": spec}
