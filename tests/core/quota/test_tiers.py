"""Tiers: who may count on what. (In which order they are served, and what people are told: tests/scenarios.)"""

from __future__ import annotations

import pytest

from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase
from fleet.core.quota.entitlement import entitlement
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit
from tests.core.quota.tiers import tiers_of

PROMISED = tree(a={"min": {GPU: 8}}, b={"min": {GPU: 8}}, c={})


def waits(name: str, leaf: str, gpus: int = 4) -> UnitBuilder:
    return unit(name).gpus(gpus).queue(f"root/{leaf}")


def test_a_leaf_counts_on_its_min_then_on_its_share_then_crosses_once_and_borrows_the_rest() -> None:
    units = [waits(f"a{i}", "a", 2) for i in range(8)]
    others = [waits(f"b{i}", "b", 2) for i in range(12)] + [waits(f"c{i}", "c", 2) for i in range(12)]
    tiers = tiers_of(snapshot(*units, *others, member("x").nodes(3), PROMISED))
    # 24 GPUs: 8 and 8 are promised, and the other 8 are divided in three: the share of a is 11, that of c is 2
    assert [tiers[f"a{i}"] for i in range(8)] == [
        *[Tier.GUARANTEED] * 4,
        Tier.SHARE,
        Tier.CROSSING,
        Tier.BORROWED,
        Tier.BORROWED,
    ]
    assert [tiers[f"c{i}"] for i in range(3)] == [Tier.SHARE, Tier.BORROWED, Tier.BORROWED]


def test_running_work_ranks_first_by_priority_then_start() -> None:
    early = waits("early", "a").runs_in("x").having(placed_at=NOW - 99)
    late = waits("late", "a").runs_in("x").having(placed_at=NOW - 9)
    high = waits("high", "a").priority(5).runs_in("x").having(placed_at=NOW - 1)
    higher = waits("higher", "a").priority(9)
    rivals = [waits(f"b{i}", "b") for i in range(6)]
    tiers = tiers_of(snapshot(late, early, high, higher, *rivals, member("x").nodes(2), PROMISED))
    assert [tiers[name] for name in ("high", "early", "late", "higher")] == [
        Tier.GUARANTEED,
        Tier.GUARANTEED,
        Tier.BORROWED,
        Tier.BORROWED,
    ]


def test_a_unit_that_takes_its_leaf_from_below_its_share_to_above_it_crosses() -> None:
    rivals = [waits(f"c{i}", "c", 8) for i in range(9)]
    tiers = tiers_of(snapshot(waits("large", "a", 16), waits("next", "a", 1), *rivals, member("x").nodes(2), PROMISED))
    assert (tiers["large"], tiers["next"]) == (Tier.CROSSING, Tier.GUARANTEED)


def test_a_unit_too_large_for_what_is_left_of_the_share_leaves_it_to_a_smaller_one_behind_it() -> None:
    rivals = [waits(f"c{i}", "c", 8) for i in range(9)]
    line = [waits("large", "a", 16).since(90), waits("small", "a", 4).since(60), waits("smaller", "a", 2).since(30)]
    world = snapshot(*line, *rivals, member("x").nodes(2), tree(a={}, c={}))  # the share of a is 8
    assert [tiers_of(world)[name] for name in ("large", "small", "smaller")] == [
        Tier.CROSSING,
        Tier.SHARE,
        Tier.SHARE,
    ]
    behind_a_block = tiers_of(world, block=True)
    assert [behind_a_block[name] for name in ("large", "small", "smaller")] == [
        Tier.CROSSING,
        Tier.BORROWED,
        Tier.BORROWED,
    ]


@pytest.mark.parametrize(
    ("share_until", "expected"),
    [
        pytest.param(None, Tier.BORROWED, id="a running unit never crosses"),
        pytest.param(NOW + 1, Tier.SHARE, id="a unit that started from a head's reservation is within it for a time"),
        pytest.param(NOW, Tier.BORROWED, id="and then no more"),
    ],
)
def test_a_running_unit_that_carries_its_leaf_past_its_share_borrows(share_until: float | None, expected: Tier) -> None:
    rivals = [waits(f"c{i}", "c", 8) for i in range(9)]
    large = waits("large", "a", 16).runs_in("x").having(share_until=share_until)
    assert tiers_of(snapshot(large, *rivals, member("x").nodes(2), tree(a={}, c={})))["large"] is expected


def test_in_a_block_queue_nobody_counts_on_more_than_the_one_ahead() -> None:
    world = snapshot(waits("large", "a", 16), waits("next", "a", 1), member("x").nodes(3), PROMISED)
    assert tiers_of(world, block=True) == {"large": Tier.SHARE, "next": Tier.SHARE}


def test_evicting_work_changes_no_share() -> None:
    def world(first: UnitBuilder) -> Snapshot:
        rest = [waits(f"b{i}", "b") for i in range(9)]
        return snapshot(first, waits("a1", "a", 8), *rest, member("x").nodes(3), PROMISED)

    big = waits("a0", "a", 8)
    found = []
    for first in (big.runs_in("x"), big.evicting_from("x"), big):
        there = world(first)
        assert there.tree is not None
        holding = [u for u in there.units.values() if u.phase is not Phase.WAITING]
        waiting = [UnitGroup((u,), request_of(u)) for u in there.units.values() if u.phase is Phase.WAITING]
        found.append(entitlement(there.tree, there.members, holding, waiting, now=NOW).shares)
    back = [u for u in world(big).units.values() if u.id == "a0"]
    others = [UnitGroup((u,), request_of(u)) for u in world(big).units.values() if u.id != "a0"]
    later = [UnitGroup((u,), request_of(u)) for u in back]
    backing_off = entitlement(PROMISED, world(big).members, [], others, later, now=NOW)
    assert found == [backing_off.shares] * 3
