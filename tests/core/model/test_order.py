"""Queue order: which unit of a queue comes first."""

from __future__ import annotations

import random

from fleet.controllers.decide.commit import _first_of
from fleet.controllers.decide.snapshot import Picture
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Placement
from tests.builders import snapshot, unit


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
    picture = Picture(snapshot(later, first), {}, None, frozenset({"root/a"}))
    placements = [Placement("0", "m"), Placement("1", "m")]
    assert _first_of(picture, placements) == placements[1:]
