"""A member packed anew, all at once, where gangs of an answer found no place one after another.

Gangs are packed one after another, each onto the fullest nodes that take it, and a placed gang stays where it is. Where
that leaves some out, a bounded search looks for a packing of all gangs of the member, or of as many as it can, in
service order. Members with reservations are not packed anew: a reservation is asked about each gang alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.greedy.situation import Pairs
from fleet.placement.linked.decode import out_of_order
from fleet.placement.packing.layout import packed_anew
from fleet.placement.packing.room import MemberRoom
from fleet.placement.reservation.profile import Profile

_MOST_PACKINGS = 12  # of one answer


def repacked(
    profile: Profile, free: Mapping[str, MemberRoom], groups: Sequence[Group], packed: Pairs, dropped: Pairs
) -> tuple[Profile, Pairs, Pairs] | None:
    """The profile after packing anew, with the pairs that are packed in it, and the other pairs. None where no
    more gang found a place. `profile`: with the `packed` gangs; `free`: the rooms before them."""
    after = profile.copy()
    tries = _MOST_PACKINGS
    found: Pairs = []
    for member in sorted({member for _, member in dropped} - {span.member for span in profile.spans}):
        here = [candidate for candidate, where in packed if where == member]
        out = sorted((candidate for candidate, where in dropped if where == member), key=service_order)
        for some in ([out] if len(out) > 1 else []) + [[candidate] for candidate in out]:
            shapes = [profile.space.shapes[candidate.shape] for candidate in (*here, *some)]
            room = packed_anew(free[member], shapes, profile.space) if tries > 0 else None
            tries -= 1
            if room is None:
                continue
            new = _admitted(after, some, member, room)
            here += new
            found += ((candidate, member) for candidate in new)
            if len(new) == len(out):
                break
    placed = {candidate.unit.id for candidate, _ in found}
    if not found or out_of_order(groups, [*packed, *found]):
        return None
    return after, [*packed, *found], [pair for pair in dropped if pair[0].unit.id not in placed]


def _admitted(profile: Profile, some: Sequence[Candidate], member: str, room: MemberRoom) -> list[Candidate]:
    """Start the gangs of `some` for which quota still has room."""
    new: list[Candidate] = []
    for candidate in some:
        if profile.admits(candidate, profile.bound(candidate)):
            profile.start_anew(candidate, member, room)
            new.append(candidate)
    return new
