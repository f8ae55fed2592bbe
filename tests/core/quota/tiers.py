"""The tiers of a world."""

from __future__ import annotations

from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase
from fleet.core.quota.entitlement import entitlement
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot
from tests.builders import NOW


def tiers_of(world: Snapshot, *, block: bool = False) -> dict[str, Tier]:
    assert world.tree is not None
    holding = [u for u in world.units.values() if u.phase is not Phase.WAITING]
    waiting = [UnitGroup((u,), request_of(u), block) for u in world.units.values() if u.phase is Phase.WAITING]
    return dict(entitlement(world.tree, world.members, holding, waiting, now=NOW).tiers())
