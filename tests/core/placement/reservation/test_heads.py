"""Heads beyond the bound of those that collect, and worlds with heads for other tests. (Stories: tests/scenarios.)"""

from __future__ import annotations

import pytest

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Nomination, Seat
from fleet.core.placement.reservation.heads import is_overdue, nominated, overdue_change
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Changes, Config, Snapshot
from tests.builders import NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit

TREE = tree(a={}, b={}, c={})
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


ONE_FULL = (runs("r", 8, "n", 0, left_s=600), member("x").nodes(1, free_gpu=0))
HALF_FULL = (runs("r", 4, "n", 4, left_s=600), member("x").nodes(1, free_gpu=4))


@pytest.mark.parametrize("delay_s", [None, 100.0, 45.5])
def test_a_head_is_overdue_in_turns_and_the_next_change_is_known(delay_s: float | None) -> None:
    config = Config(head_after_s=60.0, guarantee_delay_s=delay_s)
    large = gang("g", 8).since(0).value
    moments = [NOW + 0.5 * step for step in range(1200)]
    overdue = [is_overdue(large, config, at) for at in moments]
    assert overdue.index(True) == 240, "after twice the bound"
    changes = {at for at, was, now in zip(moments[1:], overdue, overdue[1:], strict=False) if was != now}
    known = {overdue_change(large, config, at) for at in moments}
    assert {at for at in known if at is not None and at <= moments[-1]} == changes


def test_who_comes_after_those_that_collect_keeps_its_turn() -> None:
    leaves = [f"l{i:02}" for i in range(BOUNDS.heads + 2)]
    waiting = [gang(f"g{i:02}", 8, leaf=f"root/{name}").since(LATE - i) for i, name in enumerate(leaves)]
    enough = member("full of others").nodes(9, free_gpu=0)
    world, plan = decided(*waiting, *ONE_FULL, enough, tree(b={}, **{name: {} for name in leaves}))
    assert [h.unit for h in plan.heads] == [u.value.id for u in waiting]
    assert [h.nomination for h in plan.heads[BOUNDS.heads :]] == [Nomination("", NOW, NOW)] * 2
    assert "heads" in plan.certificate.bounds, "a bound that ends a search is named"
    after = world.apply(Changes(put_units=nominated(world.units, plan)))
    again = decide(after, now=NOW + 60, seed=1, solver=None)
    assert [(h.unit, h.nomination.became) for h in again.heads] == [(h.unit, NOW) for h in plan.heads]
