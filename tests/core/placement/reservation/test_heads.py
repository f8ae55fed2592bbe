"""Heads beyond the bound of those that collect. (Stories: tests/scenarios.)"""

from __future__ import annotations

import pytest

from fleet.core.decide import decide
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.unit import Nomination
from fleet.core.placement.reservation.heads import is_overdue, nominated, overdue_change
from fleet.core.snapshot import Config, SnapshotChanges
from tests.builders import NOW, member, tree
from tests.core.placement.reservation.heads import LATE, decided, gang, runs

TREE = tree(a={}, b={}, c={})


ONE_FULL = (runs("r", 8, "n", 0, left_s=600), member("x").nodes(1, free_gpu=0))


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
    after = world.apply(SnapshotChanges(put_units=nominated(world.units, plan)))
    again = decide(after, now=NOW + 60, seed=1, solver=None)
    assert [(h.unit, h.nomination.became) for h in again.heads] == [(h.unit, NOW) for h in plan.heads]
