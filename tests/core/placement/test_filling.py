"""Filling up repeats in the layout that the next cycle sees; members without new starts are laid out once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from fleet.core.model.rule import PlacementRule
from fleet.core.placement.greedy import situation
from fleet.core.placement.greedy.greedy import settle
from fleet.core.placement.packing.layout import Coming, Layout, lay_out
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.snapshot import Snapshot
from tests.builders import member, unit
from tests.builders import snapshot as snapshot_of
from tests.core.placement.situations import situation_of


def world(seed: int) -> Snapshot:
    """A member where gangs within racks, placed one after another, do not all find a place laid out by size, and one
    with room for whoever comes."""
    x = member("x")
    for rack in range(4):
        x = x.nodes(2, free_gpu=4 + (seed + rack) % 5, labels={"rack": f"r{rack}"})
    sizes = ((2, 3), (1, 5), (2, 2), (1, 4), (3, 2), (2, 4), (1, 6), (4, 1), (2, 1))
    within = (PlacementRule("rack"),)
    gangs = [
        unit(f"u{n:02}").gang(pods, gpu=gpu, cpu=1).since(60 - n).having(rules=within)
        for n, (pods, gpu) in enumerate(sizes[seed % 9 :] + sizes)
    ]
    return snapshot_of(x, member("y").nodes(1, free_gpu=3, labels={"rack": "r"}), *gangs)


@pytest.mark.parametrize("seed", range(20))
def test_the_room_after_filling_up_is_that_of_the_next_cycle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[set[str]] = []

    def watched(free: Mapping[str, MemberRoom], coming: Iterable[Coming], space: Space) -> Layout:
        looks.append(set(free))
        return lay_out(free, coming, space)

    at_first = situation_of(world(seed))
    monkeypatch.setattr(situation, "lay_out", watched)
    outcome = settle(at_first, at_first.profile(), ())
    assert looks.count({"x", "y"}) == 1 and looks[0] == {"x", "y"}
    after = at_first.after(outcome.placed)
    for name, room in after.rooms.items():
        assert [pool.counts for pool in outcome.profile.rooms[name].pools] == [pool.counts for pool in room.pools]


def test_some_of_these_worlds_fill_up_again() -> None:
    situations = [situation_of(world(seed)) for seed in range(20)]
    assert any(settle(one, one.profile(), ()).out for one in situations)
