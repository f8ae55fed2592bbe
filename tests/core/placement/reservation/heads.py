"""Worlds with heads, and the heads of a plan."""

from __future__ import annotations

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Seat
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from tests.builders import NOW, MemberBuilder, UnitBuilder, amounts, snapshot, unit

LATE = 1000.0  # how long who has waited past the bound has waited


def runs(
    name: str,
    gpus: int,
    node: str,
    free: int,
    *,
    where: str = "x",
    leaf: str | None = "root/b",
    left_s: float | None = None,
    since: float = NOW - 500,
    pool: int = 0,
) -> UnitBuilder:
    """Runs on a node where `free` GPUs are free beside it, for `left_s` more at most."""
    made = unit(name).gpus(gpus).queue(leaf).runs_in(where)
    seat = Seat(node, pool, amounts(gpu=free, cpu=96, memory=768, pods=110), amounts(gpu=gpus, pods=1))
    walltime = None if left_s is None else NOW - since + left_s
    return made.having(placed_at=since, seats=(seat,), walltime_s=walltime)


def gang(name: str, gpus: int, pods: int = 1, leaf: str | None = "root/a") -> UnitBuilder:
    return unit(name).gpus(gpus, pods=pods).queue(leaf).since(LATE)


def small(name: str, gpus: int = 1, leaf: str | None = "root/b", ends_in: float | None = None) -> UnitBuilder:
    return unit(name).gpus(gpus).queue(leaf).having(walltime_s=ends_in)


Part = UnitBuilder | MemberBuilder | QuotaTree | Config


def decided(*parts: Part) -> tuple[Snapshot, Plan]:
    world = snapshot(*parts)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return world, plan


def heads(plan: Plan) -> dict[str, tuple[str, float, bool]]:
    return {h.unit: (h.nomination.member, h.nomination.at - NOW, h.nomination.certain) for h in plan.heads}
