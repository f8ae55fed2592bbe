"""A plan for jobs that wait."""

from __future__ import annotations

from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.snapshot import Picture, SnapshotBuilder
from fleet.controllers.runtime.events import EventRecorder
from fleet.core.model.plan import Placement
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, policy, pytorchjob, tree


async def waiting(world: World, *names: str) -> tuple[Picture, list[Placement], PlanCommitter]:
    """Jobs that wait for quota, the picture of them, and a plan that would place them all."""
    await world.apply(tree(max_jobs=0), policy(queue=True), *(pytorchjob(name) for name in names))
    await eventually(lambda: all(world.message(name) for name in names))
    await world.kill()
    picture = SnapshotBuilder(world.store, world.members).build()
    placements = [Placement(unit, "cfa") for unit in sorted(picture.snapshot.units)]
    return picture, placements, PlanCommitter(world.hub, EventRecorder(world.hub))
