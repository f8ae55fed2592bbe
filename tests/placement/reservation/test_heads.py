"""Heads: for whom room is collected, where, what it holds against whom, and what may use it meanwhile."""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.model.reason import Code
from fleet.model.unit import Nomination, Seat
from fleet.placement.reservation.heads import nominated
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Changes, Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit

TREE = tree(a={}, b={}, c={})
LATE = 1000.0  # how long who has waited past the bound has waited


def runs(
    name: str, gpus: int, node: str, free: int, *, where: str = "x", leaf: str | None = "root/b",
    left_s: float | None = None, since: float = NOW - 500, pool: int = 0,
) -> UnitBuilder:  # fmt: skip
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

WHO: dict[str, tuple[list[Part], set[str]]] = {
    "who has waited past the bound": ([gang("g", 8)], {"g"}),
    "nobody before that": ([gang("g", 8).since(599)], set()),
    "the first of its leaf alone": ([gang("g", 8), gang("h", 8).since(LATE - 1)], {"g"}),
    "one of each leaf that there is room to collect for": (
        [gang("g", 8), gang("h", 8, leaf="root/c"), member("y").nodes(1, free_gpu=0), runs("s", 8, "m", 0, where="y")],
        {"g", "h"},
    ),
    "who is not a head yet, not a bigger one behind it": ([gang("g", 8).since(9), gang("h", 8).since(8)], set()),
    "nobody that is larger than every member": ([gang("g", 9), gang("h", 8, 2)], set()),
    "not who is held": ([gang("g", 8).having(held=True)], set()),
    "one of those outside quota": ([gang("g", 8, leaf=None), gang("h", 8, leaf=None)], {"g"}),
    "who was one, though another is ahead of it now": (
        [gang("g", 8).having(head=Nomination("x", NOW - 60, NOW + 600, True)), gang("h", 8).priority(9)], {"g"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", WHO)
def test_who_is_a_head(story: str) -> None:
    waiting, expected = WHO[story]
    _, plan = decided(*waiting, *ONE_FULL, TREE)
    assert set(heads(plan)) == expected


@pytest.mark.parametrize(
    ("enqueued_s", "priority", "is_one"), [(LATE - 1, 0, True), (LATE + 1, 0, False), (9, 1, False)]
)
def test_what_came_later_and_uses_up_the_share_of_a_leaf_keeps_nobody_from_being_its_head(
    enqueued_s: float, priority: int, is_one: bool
) -> None:
    own = [
        runs(f"r{i}", 4, f"n{i}", 4, leaf="root/a", left_s=600).since(enqueued_s).priority(priority) for i in range(2)
    ]
    _, plan = decided(
        gang("g", 8), gang("other", 8, leaf="root/b").since(9), *own, member("x").nodes(2, free_gpu=4), TREE
    )
    assert set(heads(plan)) == ({"g"} if is_one else set())


def test_a_head_is_guaranteed_beside_what_came_before_it() -> None:
    """Then guaranteed work of another leaf does not pass it, though younger work of its own leaf uses up its min."""
    promised = tree(a={"min": {GPU: 8}}, c={"min": {GPU: 8}})
    nodes = member("x").nodes(1, free_gpu=4), member("full of others").nodes(1, free_gpu=0)
    for enqueued_s, starts in ((60, set()), (2 * LATE, {"firm"})):
        own = runs("r", 4, "n", 4, leaf="root/a", left_s=600).since(enqueued_s)
        _, plan = decided(gang("g", 8), small("firm", leaf="root/c"), own, *nodes, promised)
        assert heads(plan) == {"g": ("x", 600.0, True)}
        assert {p.unit for p in plan.placements} == starts


def test_who_is_within_the_guarantee_is_a_head_though_a_larger_one_before_it_is_above_the_share() -> None:
    running = runs("r", 6, "n", 0, leaf="root/a").since(2 * LATE)
    late = [gang("larger", 4), gang("g", 2).since(LATE - 1)]
    urgent = gang("urgent", 8, 2).since(9).priority(9)
    others = gang("others", 8, 3, "root/b").since(9)
    _, plan = decided(running, *late, urgent, others, member("x").nodes(3, free_gpu=0), tree(a={"min": {GPU: 8}}, b={}))
    assert set(heads(plan)) == {"g"}


def test_nobody_is_a_head_where_that_is_switched_off() -> None:
    _, plan = decided(gang("g", 8), *ONE_FULL, TREE, Config(head_after_s=0))
    assert plan.heads == ()


def test_nobody_is_a_head_whom_quota_never_allows() -> None:
    _, plan = decided(gang("g", 8), *ONE_FULL, tree(a={"max": {GPU: 7}}, b={}))
    assert plan.heads == ()


def test_in_a_queue_with_policy_block_only_the_first_can_be_one() -> None:
    strict = tree(a={"policy": "Block"}, b={})
    _, plan = decided(gang("g", 8).since(9).priority(1), gang("h", 8), *ONE_FULL, strict)
    assert plan.heads == ()
    _, plan = decided(gang("g", 8).priority(1), gang("h", 8), *ONE_FULL, strict)
    assert set(heads(plan)) == {"g"}


WHERE: dict[str, tuple[list[UnitBuilder], tuple[str, float, bool]]] = {
    "where it starts first": (
        [runs("r", 8, "n", 0, left_s=600), runs("s", 8, "m", 0, where="y", left_s=60)], ("y", 60.0, True),
    ),
    "where that is known": ([runs("r", 8, "n", 0, left_s=6000), runs("s", 8, "m", 0, where="y")], ("x", 6000.0, True)),
    "else where most of its pods have room already": (
        [runs("r", 8, "n", 0), runs("s", 4, "m", 4, where="y")], ("y", 0.0, False),
    ),
    "where it was": (
        [runs("r", 8, "n", 0, left_s=600), runs("s", 8, "m", 0, where="y", left_s=60)], ("x", 600.0, True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", WHERE)
def test_where_it_collects(story: str) -> None:
    running, expected = WHERE[story]
    head = gang("g", 4, 2)
    if story == "where it was":
        head = head.having(head=Nomination("x", NOW - 60, NOW + 600, True))
    free = {u.value.member: u.value.seats[0].free[GPU] for u in running}
    _, plan = decided(
        head, *running, *(member(name or "").nodes(1, free_gpu=left) for name, left in free.items()), TREE
    )
    assert heads(plan) == {"g": expected}


def test_who_waited_in_vain_for_unknown_ends_goes_where_the_end_is_near_enough() -> None:
    running: list[Part] = [runs("r", 8, "n", 0), runs("s", 8, "m", 0, where="y", left_s=300)]
    nodes = [member(name).nodes(1, free_gpu=0) for name in "xy"]
    for collected_s, expected in ((200.0, "x"), (400.0, "y")):
        head = gang("g", 8).having(head=Nomination("x", NOW - collected_s, NOW))
        _, plan = decided(head, *running, *nodes, TREE)
        assert heads(plan)["g"][0] == expected


BESIDE: dict[str, tuple[list[UnitBuilder], set[str]]] = {
    "not what ends later": ([small("s", ends_in=601)], set()),
    "what ends before the head can start": ([small("s", ends_in=600)], {"s"}),
    "not what does not say when it ends": ([small("s")], set()),
    "not work outside quota": ([small("s", leaf=None)], set()),
    "not other work of its leaf": ([small("s", leaf="root/a")], set()),
}


@pytest.mark.parametrize("story", BESIDE)
def test_what_may_use_the_room_that_is_collected(story: str) -> None:
    waiting, expected = BESIDE[story]
    _, plan = decided(gang("g", 8), *waiting, *HALF_FULL, TREE)
    assert {p.unit for p in plan.placements} == expected
    assert plan.reasons["g"].code is Code.COLLECTS
    assert all(plan.reasons[u.value.id].code is Code.BEHIND_HEAD for u in waiting if u.value.id not in expected)


def test_guaranteed_work_of_others_may_use_it_and_of_its_own_leaf_may_not() -> None:
    promised = tree(a={"min": {GPU: 2}}, b={}, c={"min": {GPU: 2}})
    _, plan = decided(gang("g", 8), small("own", leaf="root/a"), small("firm", leaf="root/c"), *HALF_FULL, promised)
    assert [p.unit for p in plan.placements] == ["firm"]


@pytest.mark.parametrize(
    ("head_min", "of_leaf", "protection_s", "starts"),
    [(16, "b", 300.0, True), (16, "b", 601.0, False), (16, "c", 300.0, False), (0, "b", 300.0, False)],
)
def test_a_guaranteed_head_lets_in_what_it_can_take_back_by_then(
    head_min: int, of_leaf: str, protection_s: float, starts: bool
) -> None:
    """Not from a leaf that is promised something: what is borrowed there now may be promised then."""
    promised = tree(a={"min": {GPU: head_min}}, b={}, c={"min": {GPU: 4}})
    running = runs("r", 4, "n", 4, leaf="root/c", left_s=600)
    config = Config(reclaim=True, protection_s=protection_s)
    borrowing = small("s", leaf=f"root/{of_leaf}")
    nodes = [member("x").nodes(1, free_gpu=4), member("full of others").nodes(2, free_gpu=0)]
    _, plan = decided(gang("g", 8), borrowing, running, *nodes, promised, config)
    assert heads(plan) == {"g": ("x", 600.0, True)}
    assert bool(plan.placements) == starts


def test_room_that_is_left_beside_the_head_is_used() -> None:
    """It needs one of two nodes; one small job fits whichever node it lands on, and a second one might not."""
    full: list[Part] = [
        runs("r", 4, "n", 4, left_s=600),
        runs("s", 4, "m", 4, left_s=600),
        member("x").nodes(2, free_gpu=4),
    ]
    _, plan = decided(gang("g", 8), small("s1"), small("s2"), *full, TREE)
    assert len(plan.placements) == 1
    assert heads(plan) == {"g": ("x", 600.0, True)}


def test_quota_that_becomes_free_is_collected_too() -> None:
    limited = tree(a={"max": {GPU: 8}}, b={})
    own = runs("r", 4, "n", 4, leaf="root/a", left_s=600)
    world: list[Part] = [gang("g", 8), own, member("x").nodes(4).nodes(1, free_gpu=4), limited]
    _, plan = decided(*world, small("later", leaf="root/a"), small("soon", leaf="root/a", ends_in=500), small("other"))
    assert {p.unit for p in plan.placements} == {"soon", "other"}
    assert plan.reasons["g"].code is Code.QUOTA_EXHAUSTED
    assert plan.reasons["later"].code is Code.BEHIND_HEAD
    assert heads(plan)["g"][1:] == (600.0, True)


def test_work_of_another_leaf_below_the_full_node_leaves_quota_to_the_head() -> None:
    limited = tree(org={"max": {GPU: 8}}, org__a={}, org__b={}, c={})
    running = runs("r", 4, "n", 4, leaf="root/org/b", left_s=600)
    head, beside = gang("g", 8, leaf="root/org/a"), small("s", leaf="root/org/b")
    _, plan = decided(head, beside, small("free", leaf="root/c"), running, member("x").nodes(9), limited)
    assert {p.unit for p in plan.placements} == {"free"}


def test_where_nobody_knows_who_shares_a_node_the_whole_member_is_collected() -> None:
    blind: list[Part] = [runs(f"r{i}", 4, "n", 0, left_s=600 + i).having(seats=()) for i in range(2)]
    _, plan = decided(gang("g", 8), small("s"), *blind, member("x").nodes(1, free_gpu=0).nodes(1, free_gpu=4), TREE)
    assert plan.placements == ()
    assert heads(plan) == {"g": ("x", 601.0, False)}


def test_a_head_keeps_its_member_and_the_moment_that_was_told() -> None:
    world, plan = decided(gang("g", 8), small("s"), *HALF_FULL, TREE)
    told = nominated(world.units, plan)
    assert [(u.id, u.head) for u in told] == [("g", plan.heads[0].nomination)]
    after = world.apply(Changes(put_units=told))
    later = decide(after, now=NOW + 60, seed=1, solver=None)
    assert later.heads == plan.heads
    assert nominated(after.units, later) == ()


def test_a_nomination_ends_with_the_wait() -> None:
    head = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW, True))
    world, plan = decided(head, member("x").nodes(1), TREE)
    assert [p.unit for p in plan.placements] == ["g"]
    assert plan.heads == ()
    assert [u.head for u in nominated(world.units, plan)] == [None]


def test_a_head_whose_member_is_gone_collects_in_another() -> None:
    head = gang("g", 8).having(head=Nomination("z", NOW - 60, NOW, True))
    _, plan = decided(head, *ONE_FULL, TREE)
    assert heads(plan) == {"g": ("x", 600.0, True)}


def test_the_reason_of_a_head_says_how_much_there_is_and_when_it_starts() -> None:
    running: list[Part] = [runs("r", 4, "n", 4, left_s=600), member("x").nodes(1, free_gpu=4).nodes(1)]
    _, plan = decided(gang("g", 8, 2), *running, TREE)
    assert plan.reasons["g"].text == (
        "has waited long, so room in member x is reserved for it as it becomes free: 1 of its 2 pods have room;"
        " it starts about 1970-01-12T13:56:40Z"
    )


def test_a_head_stays_one_though_its_leaf_is_above_its_share() -> None:
    """What started beside it may have taken the share of its leaf: that must not cost it its seat."""
    before = [runs(f"r{i}", 4, f"n{i}", 4, leaf="root/a", left_s=600).since(2 * LATE) for i in range(2)]
    running: list[Part] = [*before]
    world: list[Part] = [
        gang("b", 8, leaf="root/b").since(9),
        *running,
        member("x").nodes(2, free_gpu=4),
        tree(a={}, b={}),
    ]
    _, plan = decided(gang("g", 8), *world)
    assert plan.heads == ()
    _, plan = decided(gang("g", 8).having(head=Nomination("x", NOW - 60, NOW + 600, True)), *world)
    assert set(heads(plan)) == {"g"}


def test_reasons_name_no_moment_that_has_passed() -> None:
    """What runs should have ended five seconds ago; of what waits nothing ends before that."""
    overdue = (runs("r", 4, "n", 4, left_s=-5), member("x").nodes(1, free_gpu=4))
    told = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW - 5, True))
    _, plan = decided(told, small("s"), *overdue, TREE)
    assert heads(plan) == {"g": ("x", -5.0, True)}
    assert "at" not in plan.reasons["g"].numbers and "at" not in plan.reasons["s"].numbers
    assert plan.reasons["g"].text.endswith("it starts as soon as the room is free")
    assert plan.reasons["s"].text == (
        "waits behind default/g, for which room in member x is reserved; it starts when there is enough for both"
    )
