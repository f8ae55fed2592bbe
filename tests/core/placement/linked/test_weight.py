"""The weight of a gang: by its size and by its wait."""

from __future__ import annotations

from fleet.core.model.unit import Unit
from fleet.core.placement.greedy.greedy import AGES_S, age_bucket, weight
from fleet.core.placement.packing.space import Space
from tests.builders import NOW, unit


def test_a_gang_is_worth_more_in_each_age_bucket_and_the_same_within_one() -> None:
    components = unit("a").gpus(8).value.components
    space = Space([components])
    shape = space.shapes[space.number(components)]

    def worth(waited: float) -> int:
        aged: Unit = unit("a").gpus(8).since(waited).value
        return weight(shape, age_bucket(aged, NOW), space)

    edges = [0.0, *AGES_S]
    assert sorted({worth(edge) for edge in edges}) == [worth(edge) for edge in edges]
    assert len({worth(edge) for edge in edges}) == len(edges)
    assert all(worth(edge) == worth(edge + 1) for edge in edges)
    assert len(edges) <= 4
    assert worth(-100.0) == worth(0.0)
