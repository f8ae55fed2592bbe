"""Tiers: who may count on what, in which order they are served, and how people are told."""

from __future__ import annotations

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.model.reason import Code
from fleet.model.unit import Phase
from fleet.quota.entitlement import entitlement
from fleet.quota.tiers import Claimed, Tier
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.solver.cpsat import CpSat
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit

PROMISED = tree(a={"min": {GPU: 8}}, b={"min": {GPU: 8}}, c={})


def tiers_of(world: Snapshot, *, block: bool = False) -> dict[str, Tier]:
    assert world.tree is not None
    holding = [u for u in world.units.values() if u.phase is not Phase.WAITING]
    waiting = [Claimed(u, request_of(u), block) for u in world.units.values() if u.phase is Phase.WAITING]
    return dict(entitlement(world.tree, world.members, holding, waiting).tiers)


def starts(world: Snapshot) -> list[str]:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return [placement.unit for placement in plan.placements]


def waits(name: str, leaf: str, gpus: int = 4) -> UnitBuilder:
    return unit(name).gpus(gpus).queue(f"root/{leaf}")


def test_a_leaf_counts_on_its_min_then_on_its_share_and_borrows_the_rest() -> None:
    units = [waits(f"a{i}", "a") for i in range(5)]
    others = [waits(f"b{i}", "b") for i in range(6)] + [waits(f"c{i}", "c") for i in range(6)]
    tiers = tiers_of(snapshot(*units, *others, member("x").nodes(3), PROMISED))
    # 24 GPUs: 8 and 8 are promised, and the other 8 are divided in three
    assert [tiers[f"a{i}"] for i in range(5)] == [
        Tier.GUARANTEED, Tier.GUARANTEED, Tier.SHARE, Tier.BORROWED, Tier.BORROWED,
    ]  # fmt: skip
    assert [tiers[f"c{i}"] for i in range(3)] == [Tier.SHARE, Tier.BORROWED, Tier.BORROWED]


def test_running_work_ranks_first_by_priority_then_start() -> None:
    early = waits("early", "a").runs_in("x").having(placed_at=NOW - 99)
    late = waits("late", "a").runs_in("x").having(placed_at=NOW - 9)
    high = waits("high", "a").priority(5).runs_in("x").having(placed_at=NOW - 1)
    higher = waits("higher", "a").priority(9)
    rivals = [waits(f"b{i}", "b") for i in range(6)]
    tiers = tiers_of(snapshot(late, early, high, higher, *rivals, member("x").nodes(2), PROMISED))
    assert [tiers[name] for name in ("high", "early", "late", "higher")] == [
        Tier.GUARANTEED, Tier.GUARANTEED, Tier.BORROWED, Tier.BORROWED,
    ]  # fmt: skip


def test_a_leaf_below_its_share_may_exceed_it_by_its_next_one_unit() -> None:
    rivals = [waits(f"c{i}", "c", 8) for i in range(9)]
    tiers = tiers_of(snapshot(waits("large", "a", 16), waits("next", "a", 1), *rivals, member("x").nodes(2), PROMISED))
    assert (tiers["large"], tiers["next"]) == (Tier.SHARE, Tier.GUARANTEED)


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
        waiting = [Claimed(u, request_of(u)) for u in there.units.values() if u.phase is Phase.WAITING]
        found.append(entitlement(there.tree, there.members, holding, waiting).shares)
    back = [u for u in world(big).units.values() if u.id == "a0"]
    others = [Claimed(u, request_of(u)) for u in world(big).units.values() if u.id != "a0"]
    later = [Claimed(u, request_of(u)) for u in back]
    backing_off = entitlement(PROMISED, world(big).members, [], others, later)
    assert found == [backing_off.shares] * 3


def test_what_is_promised_starts_before_higher_priority_that_borrows() -> None:
    borrower = waits("borrower", "c", 8).priority(9)
    runs = waits("runs", "c", 8).runs_in("x")
    owner = waits("owner", "a", 8)
    nodes = member("x").nodes(1).nodes(1, free_gpu=0)
    assert starts(snapshot(runs, borrower, owner, nodes, PROMISED)) == ["owner"]
    solved = decide(snapshot(runs, borrower, owner, nodes, PROMISED), now=NOW, seed=1, solver=CpSat())
    assert [placement.unit for placement in solved.placements] == ["owner"]


def test_priority_counts_within_a_tier() -> None:
    world = snapshot(waits("low", "a", 8), waits("high", "b", 8).priority(5), member("x").nodes(1), PROMISED)
    assert starts(world) == ["high"]


def test_a_gang_that_fits_nowhere_does_not_stand_on_the_guarantee_of_the_others() -> None:
    giant = waits("giant", "a", 64).having(enqueued_at=0.0)
    promised = tree(a={"min": {GPU: 64}}, c={})
    world = snapshot(giant, waits("small", "a", 8), waits("c", "c", 8).priority(5), member("x").nodes(1), promised)
    assert starts(world) == ["small"]


def told(world: Snapshot, name: str) -> tuple[Code, str, object]:
    plan: Plan = decide(world, now=NOW, seed=1, solver=None)
    reason = plan.reasons[name]
    return reason.code, reason.text, reason.numbers["tier"]


def test_the_reason_says_in_which_tier_a_unit_waits() -> None:
    busy = [waits("owner", "a", 8), unit("r").gpus(8).queue("root/c").runs_in("x")]
    nodes = member("x").nodes(2, free_gpu=0)
    _, text, tier = told(snapshot(*busy, nodes, PROMISED), "owner")
    assert tier == "Guaranteed"
    assert text.endswith("(waits within its guarantee)")
    more = [waits("more", "c", 8), waits("b", "b", 8)]
    _, text, tier = told(snapshot(*busy, *more, nodes, PROMISED), "more")
    assert tier == "Borrowed"
    assert text.endswith("(waits above its fair share)")
