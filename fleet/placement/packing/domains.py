"""Which rack each gang goes to that must lie within one: told to its member, which has the last word.

A plan names members only. This lays the gangs that come to a member out as the next decision will see them, so that
two of them that start together are not sent to the same rack.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.model.unit import Phase
from fleet.placement.packing.layout import Coming, lay_out
from fleet.placement.packing.room import MemberRoom, committed
from fleet.placement.packing.space import Space
from fleet.snapshot import Snapshot


def domains(snapshot: Snapshot, placed: Mapping[str, str]) -> dict[str, str]:
    """The value of its topology label for each unit of `placed` (unit to member) that has one, where there is room."""
    bound = {key: member for key, member in placed.items() if snapshot.units[key].topology}
    found: dict[str, str] = {}
    for name in sorted(set(bound.values())):
        units = [
            unit
            for unit in snapshot.units.values()
            if (unit.member == name and unit.phase is not Phase.WAITING) or placed.get(unit.id) == name
        ]
        space = Space((unit.components for unit in units), (unit.topology for unit in units))
        coming: list[Coming] = []
        for unit in units:
            new = unit.id in placed
            shape = space.shape(unit.components, unit.topology) if new else committed(unit, space)
            coming.append((unit.id, name, shape))
        layout = lay_out({name: MemberRoom.of(snapshot.members[name], space)}, coming, space)
        found.update((key, domain) for key, domain in layout.domains.items() if key in bound)
    return found
