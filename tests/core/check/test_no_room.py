"""The checker looks for room itself: in racks, on nodes that could be added, and beside odd sizes."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.check import Rule, check
from fleet.core.model.plan import Placement, Plan
from tests.builders import NOW, MemberBuilder, member, snapshot, unit

RACK = "topology.kubernetes.io/rack"


def racks(name: str, *free: int, nodes: int = 2) -> MemberBuilder:
    """A rack of `nodes` nodes for each number of GPUs that are free on each of them."""
    made = member(name)
    for number, gpus in enumerate(free):
        made = made.nodes(nodes, free_gpu=gpus, labels={RACK: f"r{number}"})
    return made


@pytest.mark.parametrize(
    ("parts", "moved"),
    [
        ((unit("a").gpus(8, pods=3).within(RACK), racks("x", 8, 8)), ("a", "x")),
        ((unit("a").gpus(8, pods=2).within(RACK), member("x").nodes(9)), ("a", "x")),
        ((unit("a").gpus(8, pods=3), member("x").nodes(1).could_add(1)), ("a", "x")),
        ((unit("a").gang(1, gpu=5).gang(3, gpu=3), member("x").nodes(1, free_gpu=5).nodes(1)), ("a", "x")),
    ],
    ids=["across two racks", "in no rack", "on more nodes than could be added", "on nodes that are too full"],
)
def test_the_checker_refuses_room_that_is_not_there(parts: tuple[Any, ...], moved: tuple[str, str]) -> None:
    world = snapshot(*parts)
    plan = Plan((Placement(*moved),), {})
    assert [violation.rule for violation in check(world, plan, now=NOW)] == [Rule.ROOM]
