"""The solver knows what heads hold: it proposes only what a plan can keep beside them."""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.unit import Nomination, Seat
from fleet.placement.cpsat import CpSat
from fleet.snapshot import Snapshot
from tests.core.builders import GPU, NOW, amounts, member, snapshot, tree, unit
from tests.core.builders import UnitBuilder as Builder

SOON = Nomination("x", NOW - 60, NOW + 600, True)


def ends_at_700(name: str, node: str, where: str = "x", leaf: str = "root/r") -> Builder:
    """Four GPUs of a node of eight, for ten minutes more."""
    seat = Seat(node, 0, amounts(gpu=4, cpu=96, memory=768, pods=110), amounts(gpu=4, pods=1))
    made = unit(name).gpus(4).queue(leaf).runs_in(where)
    return made.having(placed_at=NOW - 100, walltime_s=700.0, seats=(seat,))


HEAD = unit("head").gpus(8).queue("root/h").since(1000).having(head=SOON)
STORIES = {
    "who ends in time may use the head's room, and leaves the other room to who does not": (
        snapshot(
            HEAD,
            ends_at_700("r", "n"),
            unit("soon").gpus(4).queue("root/a").since(99).having(walltime_s=500.0),
            unit("long").gpus(4).queue("root/a"),
            member("x").nodes(1, free_gpu=4).having(price=5),
            member("y").nodes(1, free_gpu=4),
            tree(h={}, a={}, r={}),
        ),
        {"long": "y", "soon": "x"},
    ),
    "of gangs alike the one starts that the head's quota allows, though another is older": (
        snapshot(
            HEAD.queue("root/all/h"),
            ends_at_700("r", "n", leaf="root/all/r"),
            unit("small").queue("root/all/a").since(300).having(walltime_s=500.0),
            unit("long").gpus(4).queue("root/all/a").since(200),
            unit("soon").gpus(4).queue("root/all/a").since(100).having(walltime_s=500.0),
            member("x").nodes(1, free_gpu=4),
            member("y").nodes(2),
            tree(all__h={}, all__a={"attributes": {"shared-weight": "100"}}, all__r={}, all={"max": {GPU: 8}}),
        ),
        {"soon": "x"},
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_solver_gets_beside_a_head_what_greedy_does_not(story: str) -> None:
    world, expected = STORIES[story]
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    assert check(world, plan, now=NOW) == ()
    assert [head.unit for head in plan.heads] == ["head"]
    assert {p.unit: p.member for p in plan.placements} == expected
    greedy = decide(world, now=NOW, seed=1, solver=None)
    assert sum(_gpus(world, p.unit) for p in greedy.placements) < sum(_gpus(world, name) for name in expected)


def _gpus(world: Snapshot, name: str) -> int:
    return world.units[name].total[GPU]
