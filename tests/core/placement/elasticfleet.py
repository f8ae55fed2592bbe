"""A fleet whose pods lie on nodes, and whose jobs are carried from one decision to the next: for stories of sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fleet.core.decide import decide
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Claim, Component, ElasticSizes, Phase, Seat, Step, Unit
from fleet.core.notation.codec import differences, encode_record, replay
from fleet.core.placement.problem import Solver
from fleet.core.placement.reservation.heads import nominated
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from tests.builders import NOW, amounts

LEAVING_S = 10.0  # of a pod that was told to go


@dataclass
class Job:
    """`asked` pods of `gpus` each, of which `least` are enough. `has`: how many it was given; `pods`: the nodes of
    those that are there, the oldest first."""

    name: str
    asked: int
    least: int = 0
    gpus: int = 1
    step: int = 1
    leaf: str | None = None
    priority: int = 0
    since: float = NOW
    runs_s: float = 1e9
    member: str = ""
    has: int = 0
    pods: list[str] = field(default_factory=list)
    placed_at: float = 0.0
    shrunk_at: float | None = None
    leaving_at: float | None = None
    claim: Claim | None = None
    changes: list[tuple[float, int]] = field(default_factory=list)  # when, and to which size

    @property
    def elastic(self) -> bool:
        return 0 < self.least < self.asked


class Fleet:
    """`nodes`: GPUs of each node, by member and name."""

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, int]],
        *jobs: Job,
        tree: QuotaTree | None = None,
        config: Config | None = None,
        now: float = NOW,
    ) -> None:
        self.nodes = nodes
        self.jobs = {job.name: job for job in jobs}
        self.tree = tree
        self.config = config or Config(reclaim=True)
        self.now = now
        self._heads: dict[str, Unit] = {}

    def free(self, member: str) -> dict[str, int]:
        left = dict(self.nodes[member])
        for job in self.jobs.values():
            for node in job.pods if job.member == member else ():
                left[node] -= job.gpus
        return left

    def snapshot(self) -> Snapshot:
        members = {name: self._member(name) for name in self.nodes}
        units = [self._unit(job) for job in self.jobs.values()]
        return Snapshot(self.tree, {unit.id: unit for unit in units}, members, self.config)

    def decide(self, solver: Solver | None = None) -> Plan:
        """The plan for this moment, carried out: pods lie on the fullest node that takes them."""
        world = self.snapshot()
        plan = decide(world, now=self.now, seed=1, solver=solver)
        assert "checker" not in plan.certificate.why, plan.certificate.why
        assert differences(replay(encode_record(world, plan, now=self.now, seed=1)), plan) == []
        self._heads = {unit.id: unit for unit in nominated(world.units, plan)}
        for eviction in plan.evictions:
            self.jobs[eviction.unit].leaving_at = self.now
        for claim in plan.claims:
            self.jobs[claim.unit].claim = Claim(claim.member, claim.until)
        for resize in plan.resizes:
            self._resize(self.jobs[resize.unit], dict(resize.sizes)["worker"])
        for placement in plan.placements:
            job = self.jobs[placement.unit]
            job.member, job.placed_at, job.claim = placement.member, self.now, None
            job.has = dict(placement.sizes).get("worker", job.least or job.asked)
            job.changes.append((self.now, job.has))
        for job in sorted(self.jobs.values(), key=lambda job: -job.gpus):
            self._add_pods(job)
        return plan

    def passes(self, seconds: float) -> None:
        """Time passes: pods that were told to go have gone, jobs end."""
        self.now += seconds
        for job in list(self.jobs.values()):
            if job.shrunk_at is not None and self.now - job.shrunk_at >= LEAVING_S:
                del job.pods[job.has :]
            if job.leaving_at is not None and self.now - job.leaving_at >= LEAVING_S:
                job.pods, job.member, job.has, job.leaving_at = [], "", 0, None
            if job.member and self.now - job.placed_at >= job.runs_s:
                del self.jobs[job.name]

    def _resize(self, job: Job, size: int) -> None:
        if size < job.has:
            job.shrunk_at = self.now
        if size != job.has:
            job.changes.append((self.now, size))
        job.has = size

    def _add_pods(self, job: Job) -> None:
        while job.member and job.leaving_at is None and len(job.pods) < job.has:
            free = self.free(job.member)
            takes = [(left, node) for node, left in free.items() if left >= job.gpus]
            assert takes, f"{job.name} finds no node for pod {len(job.pods)} of {job.has}: {free}"
            job.pods.append(min(takes)[1])

    def _member(self, name: str) -> Member:
        free = Counter(amounts(gpu=left, pods=110) for left in self.free(name).values())
        most = max(self.nodes[name].values())
        return Member(name, pools=(Pool((), (), "", tuple(free.items()), amounts(gpu=most, pods=110)),))

    def _unit(self, job: Job) -> Unit:
        asks = amounts(gpu=job.gpus)
        whole = (Component("worker", job.asked, asks),)
        head = self._heads[job.name].head if job.name in self._heads and not job.member else None
        unit = Unit(
            job.name,
            f"default/{job.name}",
            whole,
            job.leaf,
            job.priority,
            enqueued_at=job.since,
            claim=job.claim,
            head=head,
        )
        steps = (("worker", job.step),)
        if not job.member:
            least = (Component("worker", job.least, asks),)
            return replace(unit, components=least, sizes=ElasticSizes(whole, steps)) if job.elastic else unit
        charged = max(job.has, len(job.pods))
        free = self.free(job.member)

        def seats(pods: list[str]) -> tuple[Seat, ...]:
            on = Counter(pods)
            return tuple(
                Seat(node, 0, amounts(gpu=free[node], pods=110), asks.times(count)) for node, count in on.items()
            )

        surplus: list[Step] = []
        size = charged
        while job.elastic and size - job.step >= job.least:
            gone = job.pods[size - job.step : size]
            surplus.append(Step("worker", job.step, len(gone), seats(gone)))
            size -= job.step
        told = (charged - job.has) // job.step
        wanted = whole if charged < job.asked else ()
        return replace(
            unit,
            components=(Component("worker", charged, asks),),
            phase=Phase.PLACED if job.leaving_at is None else Phase.EVICTING,
            member=job.member,
            placed_at=job.placed_at,
            leaving_at=job.leaving_at,
            visible=(("worker", len(job.pods)),),
            seats=seats(job.pods),
            sizes=ElasticSizes(wanted, steps, tuple(surplus), told, True, job.shrunk_at) if job.elastic else None,
        )
