"""Storms: every leaf in turn becomes hungry; evictions stop when demand stops changing, and nobody goes round."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Claim, Phase, Seat, Unit
from fleet.core.placement.problem import Solver
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, amounts, tree, unit

CYCLE_S = 60.0
WHOLE = amounts(gpu=8, pods=110)
LEAVES = ("a", "b", "c")


class Fleet:
    """Members with real nodes: plans are carried out on them, one cycle a minute; who leaves is gone a cycle later."""

    def __init__(self, nodes: dict[str, int], quota: QuotaTree, config: Config, solver: Solver | None = None) -> None:
        self.nodes = {f"{name}/{i}": WHOLE for name, count in nodes.items() for i in range(count)}
        self.units: dict[str, Unit] = {}
        self.homes: dict[str, list[tuple[str, Amounts]]] = {}
        self.now = NOW
        self._members = tuple(nodes)
        self._quota = quota
        self._config = config
        self._solver = solver
        self.evictions = 0

    def submit(self, name: str, leaf: str, gpus: int, pods: int, priority: int) -> None:
        made = unit(name).gpus(gpus, pods=pods).queue(f"root/{leaf}").priority(priority).value
        self.units[name] = replace(made, enqueued_at=self.now)

    def finish(self, name: str) -> None:
        for node, holds in self.homes.pop(name, []):
            self.nodes[node] = self.nodes[node].plus(holds)
        self.units.pop(name, None)

    def used(self, leaf: str) -> int:
        running = (u for u in self.units.values() if u.leaf == f"root/{leaf}" and u.phase is not Phase.WAITING)
        return sum(u.total[GPU] for u in running)

    def snapshot(self) -> Snapshot:
        members: dict[str, Member] = {}
        for name in self._members:
            free: dict[Amounts, int] = {}
            for node, left in self.nodes.items():
                if node.startswith(f"{name}/"):
                    free[left] = free.get(left, 0) + 1
            members[name] = Member(name, pools=(Pool(free=tuple(free.items()), allocatable=WHOLE),))
        units = {
            key: replace(
                u, seats=tuple(Seat(node, 0, self.nodes[node], holds) for node, holds in self.homes.get(key, ()))
            )
            for key, u in self.units.items()
        }
        return Snapshot(self._quota, units, members, self._config)

    def cycle(self) -> bool:
        """One decision, carried out; whether anything happened."""
        self.now += CYCLE_S
        left = [u for u in self.units.values() if u.phase is Phase.EVICTING]
        for u in left:
            for node, holds in self.homes.pop(u.id):
                self.nodes[node] = self.nodes[node].plus(holds)
            gone = replace(u, phase=Phase.WAITING, member=None, placed_at=None, share_until=None, visible=())
            self.units[u.id] = gone
        plan = decide(self.snapshot(), now=self.now, seed=1, solver=self._solver)
        assert "checker" not in plan.certificate.why
        where = {placement.unit: placement for placement in plan.placements}
        for key in sorted(where, key=lambda key: (-self.units[key].components[0].requests[GPU], key)):
            self._start(replace(self.units[key], share_until=where[key].share_until), where[key].member)
        for eviction in plan.evictions:
            victim = self.units[eviction.unit]
            assert victim.phase is Phase.PLACED
            self.units[victim.id] = replace(victim, phase=Phase.EVICTING)
        for claim in plan.claims:
            self.units[claim.unit] = replace(self.units[claim.unit], claim=Claim(claim.member, claim.until))
        self.evictions += len(plan.evictions)
        return bool(left or plan.placements or plan.evictions or plan.claims)

    def _start(self, u: Unit, member: str) -> None:
        homes: list[tuple[str, Amounts]] = []
        for part in u.components:
            for _ in range(part.replicas):
                fits = [n for n in self.nodes if n.startswith(f"{member}/") and part.requests.fits(self.nodes[n])]
                if not fits:  # the member packed the others otherwise: the gang is withdrawn, and backs off
                    for node, request in homes:
                        self.nodes[node] = self.nodes[node].plus(request)
                    self.units[u.id] = replace(u, claim=None, backoff_until=self.now + CYCLE_S)
                    return
                node = min(fits, key=lambda n: (self.nodes[n][GPU], n))
                self.nodes[node] = self.nodes[node].minus(part.requests)
                homes.append((node, part.requests))
        self.homes[u.id] = homes
        seen = tuple((part.name, part.replicas) for part in u.components)
        self.units[u.id] = replace(u, phase=Phase.PLACED, member=member, placed_at=self.now, visible=seen, claim=None)


@pytest.mark.parametrize(("seed", "solver"), [*((seed, None) for seed in range(6)), (6, CpSat()), (7, CpSat())])
def test_storms_settle_and_every_leaf_gets_what_it_was_promised(seed: int, solver: Solver | None) -> None:
    rng = random.Random(seed)
    quota = tree(**{leaf: {"min": {GPU: 16}} for leaf in LEAVES})
    config = Config(reclaim=True, protection_s=2 * CYCLE_S, claim_s=10 * CYCLE_S)
    fleet = Fleet({"x": 3, "y": 4}, quota, config, solver)
    for storm in range(6):
        leaf = LEAVES[storm % len(LEAVES)]
        for number in range(rng.randint(3, 8)):
            gpus, pods = rng.choice(((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2)))
            fleet.submit(f"{leaf}{storm}-{number}", leaf, gpus, pods, rng.choice((0, 0, 0, 5)))
        if storm >= 3:  # and some of the others is done
            for name in rng.sample(sorted(fleet.units), 3):
                fleet.finish(name)
        quiet = 0
        for _ in range(60):
            quiet = 0 if fleet.cycle() else quiet + 1
            if quiet > 4:
                break
        assert quiet > 4, f"storm {storm} does not settle"
        for owner in LEAVES:
            hungry = [
                u.total[GPU] for u in fleet.units.values() if u.leaf == f"root/{owner}" and u.phase is Phase.WAITING
            ]
            assert not hungry or fleet.used(owner) + max(hungry) > 16, f"{owner} is short of its guarantee"
    assert fleet.evictions


SIZES = ((1, 1), (2, 1), (4, 1), (8, 1), (3, 1), (4, 2), (8, 2), (8, 3))


@pytest.mark.parametrize(("seed", "solver"), [*((seed, None) for seed in range(10, 14)), (16, CpSat())])
def test_storms_settle_over_departments_whose_leaves_have_policies_of_their_own(
    seed: int, solver: Solver | None
) -> None:
    """Every leaf in turn is hungry; p lets urgent work take the room of its lower one, s takes from any priority."""
    rng = random.Random(seed)
    policies = {"a__p": "PreemptLowerPriority", "b__s": "AnyPriority"}
    leaves = ("a__p", "a__q", "b__r", "b__s")
    given = {
        leaf: {"min": {GPU: 8}, "attributes": {"preempt-policy": policies[leaf]} if leaf in policies else {}}
        for leaf in leaves
    }
    quota = tree(a={"min": {GPU: 24}}, b={"min": {GPU: 16}, "max": {GPU: 40}}, **given)
    config = Config(reclaim=True, protection_s=2 * CYCLE_S, claim_s=10 * CYCLE_S)
    fleet = Fleet({"x": 3, "y": 3}, quota, config, solver)
    for storm in range(8):
        leaf = leaves[storm % len(leaves)].replace("__", "/")
        for number in range(rng.randint(5, 10)):
            gpus, pods = rng.choice(SIZES)
            fleet.submit(f"{storm}-{number}", leaf, gpus, pods, rng.choice((0, 0, 5, -5)))
        quiet, evictions = 0, fleet.evictions
        for _ in range(80):
            quiet = 0 if fleet.cycle() else quiet + 1
            if quiet > 12:  # longer than claims last
                break
        assert quiet > 12, f"storm {storm} does not settle"
        assert fleet.evictions - evictions <= 3 * len(fleet.units)
        for name in rng.sample(sorted(fleet.units), len(fleet.units) // 4):
            fleet.finish(name)
    assert fleet.evictions


def test_an_owner_gets_its_guarantee_within_protection_time_and_two_cycles() -> None:
    quota = tree(a={"min": {GPU: 32}}, b={})
    fleet = Fleet({"x": 2, "y": 2}, quota, Config(reclaim=True, protection_s=5 * CYCLE_S))
    for number in range(32):
        fleet.submit(f"b{number}", "b", 1, 1, 0)
    fleet.cycle()
    assert fleet.used("b") == 32
    fleet.submit("a-gang", "a", 8, 2, 0)
    for _ in range(5 + 2):
        fleet.cycle()
    assert fleet.units["a-gang"].phase is Phase.PLACED
    assert fleet.used("b") == 16
    assert fleet.evictions == 16
