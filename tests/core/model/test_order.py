"""Queue order: which unit of a queue comes first."""

from __future__ import annotations

import random

from fleet.core.decide import decide
from fleet.core.model.order import queue_order
from tests.builders import NOW, member, snapshot, tree, unit


def test_a_queue_is_ordered_by_priority_then_enqueue_time_then_name_then_id() -> None:
    line = [
        unit("d").priority(5).since(10),
        unit("c").since(90),
        unit("z").since(60).having(name="team/a"),
        unit("a").since(60).having(name="team/b"),
        unit("b").since(60).having(name="team/b"),
    ]
    expected = [part.value for part in line]
    assert sorted(random.Random(1).sample(expected, 5), key=queue_order) == expected


def test_a_queue_that_starts_one_unit_at_a_time_starts_the_first_in_queue_order() -> None:
    """Two units of one priority and one enqueue time: the name says which is first, whatever their ids are."""
    later, first = (
        unit(key).queue("root/a").since(60).having(name=f"team/{name}") for key, name in (("0", "second"), ("1", "one"))
    )
    world = snapshot(later, first, member("x").nodes(1), tree(a={"one_at_a_time": True}))
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert [placement.unit for placement in plan.placements] == ["1"]
    assert plan.reasons["0"].text == "root/a starts one job at a time, and another one starts now"
