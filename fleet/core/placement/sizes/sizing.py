"""The sizes of elastic units, from what is left once all units that wait have been served.

A decision is made about the fleet in which each elastic unit is at its least (fleet/core/snapshot/surplus.py). Here
each of them keeps as much of its surplus as lies beside the units that start, the oldest first. Units that need room or
quota which a surplus still holds are late: they start in a later cycle, once the pods are gone. Then units grow into
what is free, in the order of their queues. No unit is evicted for a growth, and a growth counts for nothing in the next
decision, so it needs to spare neither reservations nor claims of the future. A unit that became smaller does not grow
again for the protection time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleet.core.model.plan import SizeChange
from fleet.core.model.unit import Phase
from fleet.core.placement.greedy.situation import Pairs, Situation
from fleet.core.placement.reservation.profile import Profile
from fleet.core.placement.sizes.growth import Growth
from fleet.core.placement.sizes.surplus import Replicas, Surplus
from fleet.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SizePlan:
    """`starts`: the units that start, some in another member than was asked about; `late`: those of them that start
    once the pods of others are gone, with their members; `larger`: the replicas of units that start with more than
    their least; `resizes`: of units that run; `bounds`: those that ended the search for the sizes."""

    starts: Pairs
    late: Mapping[str, str] = field(default_factory=dict)
    larger: Mapping[str, Replicas] = field(default_factory=dict)
    resizes: tuple[SizeChange, ...] = ()
    bounds: frozenset[str] = frozenset()


def sizing(
    snapshot: Snapshot, situation: Situation, starts: Pairs, profile: Profile, barred: Collection[str] = ()
) -> SizePlan:
    """The sizes beside what `starts`, in service order. `snapshot`: with every surplus; `situation` and `profile` are
    without them. `barred`: units that keep the size that they have."""
    if not snapshot.backlog.sized and not any(candidate.unit.sizes for candidate, _ in starts):
        return SizePlan(starts)
    surplus = Surplus(snapshot, situation, starts, profile)
    late = surplus.late()
    if surplus.move(late):
        late = surplus.late()
    shrinks = surplus.shrinks(late) if late else ()
    growth = Growth(situation, surplus, {*(change.member for change in shrinks), *late.values()})
    larger: dict[str, Replicas] = {}
    growths: list[SizeChange] = []
    for unit in growth.able(snapshot.backlog.sized.values(), {*barred, *late}):
        sizes = growth.of(unit)
        if sizes and unit.phase is Phase.PLACED:
            growths.append(SizeChange(unit.id, unit.member or "", sizes))
        elif sizes:
            larger[unit.id] = sizes
    return SizePlan(surplus.starts, late, larger, (*shrinks, *growths), frozenset(surplus.bounds))
