"""How good a sound plan is: measured for tests and metrics, and never a reason to refuse a plan."""

from __future__ import annotations

from fleet.core.check.claims import claimed_members, claims_of, going
from fleet.core.check.packer import Packer, first_unpackable
from fleet.core.check.quota import ChargeSums
from fleet.core.check.units import resources_of
from fleet.core.model.leaving import vacated
from fleet.core.model.plan import Plan
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.surplus import at_least


def needless(snapshot: Snapshot, plan: Plan, *, now: float) -> tuple[str, ...]:
    """The units that a sound plan evicts though all of them could stay: its claims have quota and room beside the
    units that start now. A unit with pods that the inventory does not show is never named. The surplus of elastic units
    is in no claim's way."""
    snapshot = at_least(snapshot, now)
    victims = [snapshot.units[eviction.unit] for eviction in plan.evictions]
    starts = {placement.unit: placement.member for placement in plan.placements}
    claims, _ = claims_of(snapshot, plan, starts, now)
    leavers = going(snapshot, victims, now)
    names = resources_of(snapshot)
    rooms = {at.member.name: at for at in claimed_members(snapshot, claims, leavers)}
    # Pods that come now use room that is free now. The room of victims becomes free later.
    now_free = {name: Packer(at.member, names).beside([*at.first, *at.beside]) for name, at in rooms.items()}
    sums = ChargeSums(snapshot)
    for unit in leavers:
        sums.charge(unit, -1)
    for key in (*starts, *claims.live, *claims.new):
        sums.charge(snapshot.units[key])
    stay: list[str] = []
    for victim in victims:
        if victim.id in snapshot.backlog.unseen:
            continue
        at, member = rooms.get(victim.member or ""), now_free.get(victim.member or "")
        sums.charge(victim)
        able = all(sums.allow(snapshot.units[key]) for key in claims.new)
        if able and at is not None:
            leaving = [unit for unit in at.leaving if unit.id not in {*stay, victim.id}]
            able = member is not None and not first_unpackable(vacated(member, leaving), [], at.claimed, names)
        if able:
            stay.append(victim.id)
        else:
            sums.charge(victim, -1)
    return tuple(stay)
