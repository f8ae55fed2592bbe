"""Heads beside one another: by which moment each is measured when others pass it. (Stories: tests/scenarios.)"""

from __future__ import annotations

from fleet.model.unit import Nomination
from tests.builders import GPU, NOW, member, tree
from tests.placement.reservation.test_heads import (
    TREE,
    decided,
    gang,
    heads,
    runs,
    small,
)


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
