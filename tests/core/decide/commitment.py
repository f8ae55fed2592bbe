"""The world after a plan."""

from __future__ import annotations

from dataclasses import replace

from fleet.core.model.plan import Plan
from fleet.core.model.unit import Claim, Phase
from fleet.core.placement.reservation.heads import nominated
from fleet.core.snapshot import Snapshot, SnapshotChanges
from tests.builders import NOW


def committed(world: Snapshot, plan: Plan) -> Snapshot:
    """The world after the plan: its units are placed, and no pod of them is seen yet; who must leave is leaving,
    and heads are nominated."""
    placed = tuple(
        replace(world.units[p.unit], phase=Phase.PLACED, member=p.member, placed_at=NOW, visible=())
        for p in plan.placements
    )
    leaving = tuple(replace(world.units[e.unit], phase=Phase.EVICTING) for e in plan.evictions)
    claiming = tuple(replace(world.units[c.unit], claim=Claim(c.member, c.until)) for c in plan.claims)
    after = world.apply(SnapshotChanges(put_units=(*placed, *leaving, *claiming)))
    return after.apply(SnapshotChanges(put_units=nominated(after.units, plan)))
