"""What a verifier of packings needs; it knows nothing of the planner or the checker."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from fleet.core.model.plan import Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot
from tests.builders import NOW


@cache
def packs(free: tuple[tuple[int, ...], ...], pods: tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]) -> bool:
    """Whether the pods, (amounts, nodes that it may use), find room on the nodes: every way is tried."""
    if not pods:
        return True
    (size, may), rest = pods[0], pods[1:]
    for node, have in enumerate(free):
        if may[node] and all(need <= room for need, room in zip(size, have, strict=True)):
            left = tuple(room - need for need, room in zip(size, have, strict=True))
            if packs((*free[:node], left, *free[node + 1 :]), rest):
                return True
    return False


def committed(world: Snapshot, plan: Plan) -> dict[str, Unit]:
    """The units once the plan's placements are committed, and nothing of them is seen yet."""
    units = dict(world.units)
    for placement in plan.placements:
        made = units[placement.unit]
        seen = tuple((component.name, 0) for component in made.components)
        units[made.id] = replace(made, phase=Phase.PLACED, member=placement.member, placed_at=NOW, visible=seen)
    return units
