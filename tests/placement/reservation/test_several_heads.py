"""Heads beside one another: who holds and who keeps its turn, and by which moment each is measured."""

from __future__ import annotations

from fleet.decide import decide
from fleet.model.unit import Claim, Nomination
from fleet.placement.reservation.heads import MOST_HEADS, nominated
from fleet.quota.guarantee import LEND_LIMIT
from fleet.snapshot import Changes
from tests.builders import GPU, NOW, member, tree, unit
from tests.placement.reservation.test_heads import (
    HALF_FULL,
    LATE,
    ONE_FULL,
    TREE,
    Part,
    decided,
    gang,
    heads,
    runs,
    small,
)


def test_a_second_head_waits_for_the_first_where_there_is_no_seat_beside_it() -> None:
    first, second = gang("g", 8), gang("h", 8, leaf="root/c").since(LATE - 1)
    _, plan = decided(first.having(walltime_s=100.0), second, small("s", ends_in=650.0), *HALF_FULL, TREE)
    assert heads(plan) == {"g": ("x", 600.0, True), "h": ("x", 700.0, True)}
    assert plan.placements == ()
    _, plan = decided(first, second, *HALF_FULL, TREE)  # nobody knows when the first one will end
    assert heads(plan) == {"g": ("x", 600.0, True), "h": ("", 0.0, False)}


def test_who_comes_after_those_that_collect_keeps_its_turn() -> None:
    leaves = [f"l{i:02}" for i in range(MOST_HEADS + 2)]
    waiting = [gang(f"g{i:02}", 8, leaf=f"root/{name}").since(LATE - i) for i, name in enumerate(leaves)]
    enough = member("full of others").nodes(9, free_gpu=0)
    world, plan = decided(*waiting, *ONE_FULL, enough, tree(b={}, **{name: {} for name in leaves}))
    assert [h.unit for h in plan.heads] == [u.value.id for u in waiting]
    assert [h.nomination for h in plan.heads[MOST_HEADS:]] == [Nomination("", NOW, NOW)] * 2
    after = world.apply(Changes(put_units=nominated(world.units, plan)))
    again = decide(after, now=NOW + 60, seed=1, solver=None)
    assert [(h.unit, h.nomination.became) for h in again.heads] == [(h.unit, NOW) for h in plan.heads]


def test_a_head_that_holds_nothing_yet_keeps_no_room_and_no_quota_from_others() -> None:
    nodes: list[Part] = [*HALF_FULL, member("y").nodes(1, free_gpu=4)]
    _, plan = decided(gang("g", 8), gang("h", 8, leaf="root/c"), small("s", leaf="root/c"), *nodes, TREE)
    assert heads(plan)["h"] == ("", 0.0, False)
    assert [(p.unit, p.member) for p in plan.placements] == [("s", "y")]


def test_a_head_that_holds_nothing_yet_stays_one_though_small_jobs_use_up_the_share_of_its_leaf() -> None:
    """Else the head of another leaf would be before it when there is room."""
    ahead, waits = gang("g", 8, 2), gang("h", 8, 2, "root/c").since(LATE - 1)
    full = [runs(f"r{i}", 4, f"n{i}", 4, left_s=600) for i in range(2)]
    x = member("x").nodes(2, free_gpu=4)
    world, plan = decided(ahead, waits, *full, x, TREE)
    assert heads(plan)["h"] == ("", 0.0, False)
    told = world.apply(Changes(put_units=nominated(world.units, plan))).units["h"].head
    own = [runs(f"r{i}", 4, f"n{i}", 4, leaf="root/c", left_s=600).since(2 * LATE) for i in range(2)]
    other = gang("k", 8, 2).since(LATE + 1)
    assert set(heads(decided(waits, other, *own, x, TREE)[1])) == {"k"}
    _, plan = decided(waits.having(head=told), other, *own, x, TREE)
    assert heads(plan) == {"h": ("x", 600.0, True), "k": ("", 0.0, False)}


def test_heads_are_served_in_the_order_in_which_they_became_heads_wherever_they_collected() -> None:
    """Who waited for room is before who found some meanwhile; planning again changes nothing."""
    first = gang("g", 8, 1).having(head=Nomination("", NOW - 300, NOW - 300))
    found = gang("h", 8, leaf="root/c").having(head=Nomination("x", NOW - 200, NOW + 600, True))
    gone = gang("k", 8, leaf="root/b").having(head=Nomination("z", NOW - 100, NOW + 600, True))
    world, plan = decided(gone, found, first, *ONE_FULL, TREE)
    assert [(h.unit, h.nomination.member, h.nomination.became) for h in plan.heads] == [
        ("g", "x", NOW - 300), ("h", "", NOW - 200), ("k", "", NOW - 100),
    ]  # fmt: skip
    assert plan.heads[0].nomination.since == NOW
    after = world.apply(Changes(put_units=nominated(world.units, plan)))
    for later in (0.0, 60.0):
        assert decide(after, now=NOW + later, seed=1, solver=None).heads == plan.heads


def test_a_small_job_starts_beside_one_that_takes_its_claimed_room_from_a_head() -> None:
    """The head waits for that one too, wherever it lies, so the third node is free for the small one."""
    claims = unit("c").gpus(4, pods=2).queue("root/c").having(claim=Claim("x", NOW + 600))
    running: list[Part] = [runs("r", 8, "n", 0, pool=1), runs("s", 3, "m", 5, pool=2)]
    x = member("x").nodes(1).nodes(1, free_gpu=0).nodes(1, free_gpu=5)
    _, plan = decided(gang("g", 8, 2), claims, small("t", 2), *running, x, TREE)
    assert {p.unit for p in plan.placements} == {"c", "t"}
    assert heads(plan) == {"g": ("x", 0.0, False)}


def test_nothing_more_takes_the_room_of_a_head_that_waits_for_all_that_is_there() -> None:
    """It waits for the one that starts in claimed room too; of two small ones that outlast that, one leaves it room."""
    claims = unit("c").gpus(3).queue("root/c").having(claim=Claim("x", NOW + 600))
    _, plan = decided(gang("g", 3, 4), claims, small("s", 2), small("t", 2), small("u", 2), member("x").nodes(2), TREE)
    assert {p.unit for p in plan.placements} == {"c", "s"}
    assert heads(plan) == {"g": ("x", 0.0, False)}


def test_what_starts_beside_a_head_is_measured_by_the_moment_that_the_one_ahead_puts_it_off_to() -> None:
    ahead = gang("h", 4, leaf="root/c").having(walltime_s=1200.0)
    head = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW + 300, True))
    x = member("x").nodes(1).nodes(1, free_gpu=0)
    promised = tree(a={}, b={}, c={"min": {GPU: 4}})
    _, plan = decided(ahead, head, small("s"), runs("r", 8, "n", 0, left_s=540, pool=1), x, promised)
    assert {p.unit for p in plan.placements} == {"h", "s"}
    assert heads(plan) == {"g": ("x", 300.0, True)}
    assert [h.delayed for h in plan.heads] == [NOW + 540]


def test_a_head_that_one_ahead_of_it_delays_is_measured_by_the_moment_that_it_is_delayed_to() -> None:
    """Beside the small job it would not fit when it was told, but neither does it beside the head ahead of it."""
    ahead = gang("h", 2, 6, "root/c").having(walltime_s=600.0, head=Nomination("x", NOW - 120, NOW + 600, True))
    head = gang("g", 3, 4).having(head=Nomination("x", NOW - 60, NOW + 600, True))
    full = [
        runs("r", 4, "n", 4, left_s=600), runs("t", 8, "m", 0, left_s=600, pool=1),
        runs("u", 4, "k", 0, left_s=700, pool=1), runs("v", 4, "k", 0, pool=1),
    ]  # fmt: skip
    x = member("x").nodes(1, free_gpu=4).nodes(2, free_gpu=0)
    _, plan = decided(ahead, head, small("s", 3), *full, x, TREE)
    assert {p.unit for p in plan.placements} == {"s"}
    assert [(h.unit, h.nomination.at, h.delayed) for h in plan.heads] == [
        ("h", NOW + 600, None), ("g", NOW + 600, NOW + 1200),
    ]  # fmt: skip


def test_nobody_makes_the_moment_that_was_told_impossible_where_those_who_pass_might_not() -> None:
    """Wherever these two lie it starts later; packed well they leave it its moment, and another one does not."""
    head = gang("g", 4, 2).having(head=Nomination("x", NOW - 60, NOW + 840, True))
    full = [
        runs("r", 2, "n", 5, left_s=720), runs("r2", 1, "n", 5),
        runs("t", 1, "m", 3, left_s=840, pool=1), runs("t2", 2, "m", 3, left_s=960, pool=1),
        runs("t3", 2, "m", 3, pool=1),
    ]  # fmt: skip
    x = member("x").nodes(1, free_gpu=5).nodes(1, free_gpu=3)
    passing = [gang("e", 1, leaf="root/c"), small("f", leaf="root/c")]
    promised = tree(a={}, b={}, c={"min": {GPU: 4}})
    _, plan = decided(head, *passing, small("s", 2), *full, x, promised)
    assert {p.unit for p in plan.placements} == {"e", "f"}
    assert [(h.nomination.at, h.delayed) for h in plan.heads] == [(NOW + 840, NOW + 960)]


def test_a_head_that_has_no_seat_beside_one_that_passes_it_keeps_its_member_from_others() -> None:
    """What else came in would be there for as long as anything."""
    ahead = gang("h", 2, leaf="root/c")
    head = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW - 60, turn=NOW - 600))
    promised = tree(a={}, b={}, c={"min": {GPU: 4}})
    _, plan = decided(ahead, head, small("s"), member("x").nodes(1), promised)
    assert {p.unit for p in plan.placements} == {"h"}
    assert [(h.unit, h.nomination.member, h.nomination.became) for h in plan.heads] == [("g", "x", NOW - 600)]


def test_a_head_starts_when_it_was_told_once_the_one_ahead_of_it_has_started_elsewhere() -> None:
    ahead = gang("h", 8, leaf="root/c").having(walltime_s=1000.0, head=Nomination("x", NOW - 120, NOW + 600, True))
    head = gang("g", 8).having(head=Nomination("x", NOW - 60, NOW + 600, True))
    full: list[Part] = [runs("r", 4, "n", 4, left_s=600), runs("t", 8, "m", 0, left_s=1200, pool=1)]
    x = member("x").nodes(1, free_gpu=4).nodes(1, free_gpu=0)
    _, plan = decided(ahead, head, small("s", 4, ends_in=1500.0), *full, x, member("y").nodes(1), TREE)
    assert [(p.unit, p.member) for p in plan.placements] == [("h", "y")]
    assert heads(plan) == {"g": ("x", 600.0, True)}


def test_a_head_sees_who_starts_in_its_member_though_that_one_collected_elsewhere() -> None:
    """It can spare one of three nodes; the head ahead of it uses that, so nobody else does."""
    ahead = gang("h", 4, leaf="root/c").having(head=Nomination("x", NOW - 120, NOW + 900, True))
    head = gang("g", 8, 2).having(head=Nomination("y", NOW - 60, NOW + 600, True))
    full = [runs(f"r{i}", 4, f"n{i}", 4, where="y", left_s=600) for i in range(3)]
    nodes = member("x").nodes(1, free_gpu=0), member("y").nodes(3, free_gpu=4)
    _, plan = decided(ahead, head, small("s", 4), *full, runs("t", 8, "m", 0, left_s=900), *nodes, TREE)
    assert [(p.unit, p.member) for p in plan.placements] == [("h", "y")]
    assert heads(plan) == {"g": ("y", 600.0, True)}


def test_room_that_is_free_for_two_heads_is_used_by_both() -> None:
    _, plan = decided(gang("g", 4), gang("h", 4, leaf="root/c"), small("s", 2), member("x").nodes(1), TREE)
    assert {p.unit for p in plan.placements} == {"g", "h"}


def test_one_that_never_starts_since_others_lend_nothing_uses_up_nothing_of_a_head_behind_it() -> None:
    lends = {LEND_LIMIT: '{"nvidia.com/gpu": 0}'}
    quota = tree(o={"max": {GPU: 8}}, o__c={"min": {GPU: 2}, "attributes": lends}, o__d={"min": {GPU: 4}})
    ahead = unit("never").gpus(8).queue("root/o/d").priority(3).since(LATE)
    running = runs("r", 6, "n", 0, leaf="root/o/d").since(9)
    _, plan = decided(ahead, gang("g", 3, leaf="root/o/d"), running, member("x").nodes(1, free_gpu=0).nodes(1), quota)
    assert set(heads(plan)) == {"g"}
