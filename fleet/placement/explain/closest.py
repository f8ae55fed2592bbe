"""The member that comes closest to taking a whole gang, and its lack: only the resources that bind.

A person can act on few numbers, so a short list is better than a complete one. Devices that do not suffice are named
alone. Otherwise it is each resource of which, taken alone, too little is free. Where each alone would suffice, and all
together do not (one node has the CPU, another the memory), it is the fewest that show this.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from fleet.model.reason import human
from fleet.placement.packing.room import MemberRoom, Part, Shape, Space

NO_MATCH = "matching labels and tolerated taints"
_UNITS = {"cpu": "CPU"}


def closest(shape: Shape, rooms: Sequence[MemberRoom], space: Space, *, empty: bool) -> dict[str, str | int]:
    """The numbers of a reason: the room that leaves the fewest pods of the gang outside, and their lack there.
    `empty`: the rooms are as if nothing ran in them."""
    pods = sum(part.replicas for part in shape)
    devices = frozenset(range(space.devices))
    best: tuple[int, MemberRoom, Set[int]] | None = None
    for room in rooms:
        among: Set[int] = devices
        missing = _missing(shape, room, devices, space)
        if not _lacks(shape, missing, devices):
            among = frozenset(index for part in shape for index, _ in part.need)
            missing = room.missing(shape, space.devices)
        if best is None or sum(missing) < best[0]:
            best = (sum(missing), room, among)
    if best is None:
        return {"pods": pods, "member": "none", "short": pods, "what": "room"}
    _, room, among = best
    binding = _binding(shape, room, among, space)
    missing = _missing(shape, room, binding, space)
    worst = max(range(len(shape)), key=lambda index: missing[index])
    part = _only(shape[worst], binding)
    numbers: dict[str, str | int] = {"pods": pods, "member": room.name, "short": missing[worst]}
    lacks = {"lacks": ", ".join(space.resources[index] for index, _ in part.need)} if part.need else {}
    return {**numbers, "what": _what(part, room, space, empty=empty), **lacks}


def _binding(shape: Shape, room: MemberRoom, among: Set[int], space: Space) -> Set[int]:
    """The resources of `among` that keep pods out; all of them where none does."""
    asked = {index for part in shape for index, _ in part.need} & among
    if len(asked) < 2:
        return asked
    alone = {index for index in asked if _lacks(shape, _missing(shape, room, {index}, space), {index})}
    if alone:
        return alone
    for index in sorted(asked, reverse=True):
        fewer = asked - {index}
        if _lacks(shape, _missing(shape, room, fewer, space), fewer):
            asked = fewer
    return asked


def _missing(shape: Shape, room: MemberRoom, resources: Set[int], space: Space) -> list[int]:
    """How many pods of each part find no place, if they asked for these resources only."""
    return room.missing(tuple(_only(part, resources) for part in shape), space.devices)


def _lacks(shape: Shape, missing: Sequence[int], resources: Set[int]) -> bool:
    """Whether a part that is left out asks for one of these resources; any other part lacks another thing."""
    return any(out and any(i in resources for i, _ in part.need) for part, out in zip(shape, missing, strict=True))


def _only(part: Part, resources: Set[int]) -> Part:
    """The part as if it asked for these resources only."""
    return replace(part, need=tuple((index, amount) for index, amount in part.need if index in resources))


def _what(part: Part, room: MemberRoom, space: Space, *, empty: bool) -> str:
    names = space.resources
    sizes = ", ".join(f"{human(amount, names[i])} {_UNITS.get(names[i], names[i])}" for i, amount in part.need)
    free = "" if empty else " free"
    within = f" within one {space.topologies[part.topology - 1]}" if part.topology else ""
    return f"{sizes}{free}{within}{_among(part, room)}" if sizes else NO_MATCH


def _among(part: Part, room: MemberRoom) -> str:
    """How many nodes its selector, affinity and tolerations leave it, where these are not all."""
    total = sum(sum(pool.counts.values()) for pool in room.pools)
    match = sum(sum(pool.counts.values()) for pool in room.pools if pool.takes[part.claim])
    return f" among the {match} of {total} nodes that match it" if match < total else ""
