"""Which nodes more could help a waiting unit: the kinds of pools it may use, and how many it needs at the least."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fleet.core.foresee.change import MoreNodes, empty_node, lifts_for
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.unit import Unit
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Space
from fleet.core.snapshot import Snapshot


def least(no: int, yes: int, works: Callable[[int], bool], hints: Iterable[int]) -> int:
    """A number in (no, yes] that works while the one below it does not, given that `no` does not and `yes` does.
    `hints` are looked at first."""
    pending = list(hints)
    while yes - no > 1:
        probe = (no + yes) // 2
        while pending:
            hint = pending.pop(0)
            if no < hint < yes:
                probe = hint
                break
        if works(probe):
            yes = probe
        else:
            no = probe
    return yes


def pools_that_help(snapshot: Snapshot, unit: Unit, most: int) -> list[tuple[int, MoreNodes]]:
    """One more node of each kind of pool that helps at all, with the least number that the gang needs."""
    space = Space.of([unit])
    shape = space.shape_of(unit)
    options: list[tuple[int, int, str, MoreNodes]] = []
    for name in sorted(snapshot.members):
        at = snapshot.members[name]
        if lifts_for(unit, at) != ():
            continue
        kinds: set[object] = set()
        for number, pool in enumerate(at.pools):
            each = empty_node(pool)
            alike = (each, pool.labels, pool.taints, pool.places)
            if not each.items_ or alike in kinds:
                continue
            kinds.add(alike)
            change = MoreNodes(name, number, 1, each)

            def fits(nodes: int, at: Member = at, number: int = number, each: Amounts = each) -> bool:
                pools = (*at.pools, replace(at.pools[number], free=(*at.pools[number].free, (each, nodes))))
                room = MemberRoom.of(replace(at, pools=pools), space)
                return room.fit(shape, space.devices, potential=True) is not None

            if fits(1):
                options.append((1, at.price, name, change))
            elif fits(max(1, unit.pods)):
                options.append((least(1, unit.pods, fits, []), at.price, name, change))
    options.sort(key=lambda entry: (entry[0], entry[1], entry[2], entry[3].pool))
    return [(nodes, change) for nodes, _, _, change in options[:most]]
