"""A fleet with real nodes and a virtual clock, in which small jobs never stop coming."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Claim, Phase, Seat, Unit
from fleet.core.placement.problem import Solver
from fleet.core.placement.reservation.heads import nominated
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, amounts, unit

CYCLE_S = 60.0
WHOLE = amounts(gpu=8, pods=110)


@dataclass(frozen=True)
class Small:
    """The small jobs of one leaf: each has `gpus` GPUs, runs for some time from `runs_s`, and says `walltime_s`."""

    leaf: str | None
    gpus: tuple[int, ...] = (1,)
    runs_s: tuple[float, float] = (600.0, 1200.0)
    says: bool = True  # how long it runs at most
    waiting: int = 12  # so many of them wait at any time
    priority: int = 0


def spread(free: Sequence[tuple[int, str]], rng: random.Random) -> str:
    """As kube-scheduler does by default: the freest node."""
    return max(free)[1]


def pack(free: Sequence[tuple[int, str]], rng: random.Random) -> str:
    return min(free)[1]


def anywhere(free: Sequence[tuple[int, str]], rng: random.Random) -> str:
    return rng.choice(free)[1]


class Stream:
    """Plans are carried out on nodes, one cycle a minute; who must leave is gone a cycle later. `seen_late`: pods show
    in the inventory one cycle after they start. `seats`: the inventory says who shares a node."""

    def __init__(
        self,
        members: dict[str, int],
        quota: QuotaTree | None,
        config: Config,
        small: Sequence[Small],
        *,
        scheduler: Callable[[Sequence[tuple[int, str]], random.Random], str] = spread,
        seed: int = 0,
        solver: Solver | None = None,
        seen_late: bool = False,
        seats: bool = True,
    ) -> None:
        self.nodes = {f"{name}/{i}": WHOLE for name, count in members.items() for i in range(count)}
        self.units: dict[str, Unit] = {}
        self.ends: dict[str, float] = {}
        self.now = NOW
        self.plan = Plan()
        self.started: dict[str, float] = {}
        self._homes: dict[str, list[tuple[str, Amounts]]] = {}
        self._members = tuple(members)
        self._quota = quota
        self._config = config
        self._small = small
        self._scheduler = scheduler
        self._rng = random.Random(seed)
        self._solver = solver
        self._late = seen_late
        self._seats = seats
        self._count = 0

    def submit(self, made: Unit, runs_s: float) -> None:
        self.units[made.id] = replace(made, enqueued_at=self.now)
        self.ends[made.id] = runs_s

    def busy(self, member: str) -> int:
        """GPUs in use."""
        return sum(8 - left[GPU] for node, left in self.nodes.items() if node.startswith(f"{member}/"))

    def cycle(self) -> None:
        self.now += CYCLE_S
        for key, u in list(self.units.items()):
            if u.phase is Phase.EVICTING:
                self._leave(key)
                gone = replace(u, phase=Phase.WAITING, member=None, placed_at=None, share_until=None, visible=())
                self.units[key] = gone
            elif u.phase is Phase.PLACED and u.placed_at is not None and u.placed_at + self.ends[key] <= self.now:
                self._leave(key)
                del self.units[key]
            elif u.phase is Phase.PLACED:
                self.units[key] = replace(u, visible=tuple((part.name, part.replicas) for part in u.components))
        for kind in self._small:
            waiting = sum(
                u.name.startswith(f"small-{kind.leaf}-") and u.phase is Phase.WAITING for u in self.units.values()
            )
            for _ in range(kind.waiting - waiting):
                self._come(kind)
        world = self.snapshot()
        self.plan = decide(world, now=self.now, seed=1, solver=self._solver)
        assert check(world, self.plan, now=self.now) == ()
        assert "checker" not in self.plan.certificate.why
        for changed in nominated(self.units, self.plan):
            self.units[changed.id] = changed
        for placement in sorted(self.plan.placements, key=lambda p: -self.units[p.unit].total[GPU]):
            placed = replace(self.units[placement.unit], share_until=placement.share_until)
            self._start(placed, placement.member)
        for eviction in self.plan.evictions:
            self.units[eviction.unit] = replace(self.units[eviction.unit], phase=Phase.EVICTING)
        for claim in self.plan.claims:
            self.units[claim.unit] = replace(self.units[claim.unit], claim=Claim(claim.member, claim.until))

    def snapshot(self) -> Snapshot:
        members: dict[str, Member] = {}
        hidden = {key for key, u in self.units.items() if u.phase is not Phase.WAITING and not u.visible}
        shown = dict(self.nodes)
        for key in hidden:
            for node, holds in self._homes.get(key, ()):
                shown[node] = shown[node].plus(holds)
        for name in self._members:
            free: dict[Amounts, int] = {}
            for node, left in shown.items():
                if node.startswith(f"{name}/"):
                    free[left] = free.get(left, 0) + 1
            members[name] = Member(name, pools=(Pool(free=tuple(free.items()), allocatable=WHOLE),))
        units = {
            key: replace(u, seats=tuple(Seat(node, 0, shown[node], holds) for node, holds in self._homes.get(key, ())))
            if self._seats and key not in hidden
            else u
            for key, u in self.units.items()
        }
        return Snapshot(self._quota, units, members, self._config)

    def _come(self, kind: Small) -> None:
        self._count += 1
        runs = self._rng.uniform(*kind.runs_s)
        made = (
            unit(f"small-{kind.leaf}-{self._count:06}")
            .gpus(self._rng.choice(kind.gpus))
            .queue(kind.leaf)
            .priority(kind.priority)
        )
        value = replace(made.value, name=made.value.id, walltime_s=kind.runs_s[1] if kind.says else None)
        self.submit(value, runs)

    def _leave(self, key: str) -> None:
        for node, holds in self._homes.pop(key, []):
            self.nodes[node] = self.nodes[node].plus(holds)

    def _start(self, u: Unit, member: str) -> None:
        homes: list[tuple[str, Amounts]] = []
        for part in u.components:
            for _ in range(part.replicas):
                fits = [
                    (left[GPU], node)
                    for node, left in self.nodes.items()
                    if node.startswith(f"{member}/") and part.requests.fits(left)
                ]
                if not fits:  # others of this plan went elsewhere than planned: it is withdrawn, and waits on
                    for home, holds in homes:
                        self.nodes[home] = self.nodes[home].plus(holds)
                    return
                node = self._scheduler(fits, self._rng)
                self.nodes[node] = self.nodes[node].minus(part.requests)
                homes.append((node, part.requests))
        self._homes[u.id] = homes
        seen = () if self._late else tuple((part.name, part.replicas) for part in u.components)
        self.units[u.id] = replace(
            u, phase=Phase.PLACED, member=member, placed_at=self.now, visible=seen, claim=None, head=None
        )
        self.started[u.id] = self.now
