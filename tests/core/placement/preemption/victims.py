"""Worlds with victims, what victims cost, and decisions that the checker agrees to."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.preemption.preempt import lost_work
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, snapshot, tree, unit
from tests.core.check.reclaims import RECLAIM, crowded

Cost = tuple[int, int, int]


def decided(world: Snapshot, solver: Any = None) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=solver or CpSat())
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return plan


def cost(victims: list[Unit], tiers: Any) -> Cost:
    within = sum(tiers.get(unit.id, Tier.BORROWED) < Tier.BORROWED for unit in victims)
    return within, len(victims), sum(lost_work(unit, NOW) for unit in victims)


def random_world(rng: random.Random) -> tuple[Snapshot, Unit]:
    """Two members of a few nodes, with gangs of leaves c and d sitting on them, and an owner that waits."""
    units, members = crowded(rng, leaves="ccd", gpus=(1, 2, 2, 4, 4, 3, 8), pods=2, others=range(9))
    owner = unit("owner").gpus(rng.choice((1, 2, 3, 4, 8)), pods=rng.randint(1, 2)).queue("root/a")
    if rng.random() < 0.3:
        owner = owner.gang(1, gpu=rng.choice((1, 2)))
    quota = tree(a={"min": {GPU: 20}}, c={}, d={"min": {GPU: rng.choice((0, 4))}})
    if rng.random() < 0.5:
        used = sum(u.value.total[GPU] for u in units)
        root = replace(quota.nodes["root"], max={GPU: used + rng.randint(0, owner.value.total[GPU])})
        quota = replace(quota, nodes={**quota.nodes, "root": root})
    return snapshot(owner, *units, *members, quota, RECLAIM), owner.value


class Fails:
    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        raise MemoryError


def evicted(plan: Plan) -> list[str]:
    return sorted(eviction.unit for eviction in plan.evictions)
