"""Guaranteed work gives way to heads within their share, where that costs it nothing.

It passes such a head by right, since what is promised must start at once. But it need not use the very room that is
collected while another member has room for it, or room that only a later head collects: against a stream of it the
head would never start. So once all that is guaranteed has a place, and before anything else has, whoever would cost a
head its seat moves to where it starts just as well. Nobody who would start is left out for that: with all others where
they are, it has that room, or it stays.

Who loses by it is work that is not guaranteed, which finds less room in the other members; and what passes still comes
in where the others are full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet.placement.candidates.candidate import Candidate
from fleet.placement.greedy.ground import Ground
from fleet.placement.packing.room import Fit
from fleet.placement.reservation.hold import Hold
from fleet.quota.tiers import Tier

Pairs = Sequence[tuple[Candidate, str]]


def passing(holds: Sequence[Hold], placed: Pairs) -> Iterator[int]:
    """Which of `placed` pass a head by right and cost it its seat, by index. `holds`: what heads hold before any of
    them has started; they see who starts, but for those that are named."""
    for index, (candidate, member) in enumerate(placed):
        here = [hold for hold in holds if hold.member == member]
        if any(_passes(candidate, hold, holds) and not hold.spares_room(candidate.shape) for hold in here):
            yield index
        else:
            for hold in here:
                hold.see(candidate, member)


def _passes(candidate: Candidate, hold: Hold, holds: Sequence[Hold]) -> bool:
    """Whether it starts by right: as it is guaranteed, or is a head that is."""
    heads = (other for other in holds if other.tier is Tier.GUARANTEED and other.head.unit.id == candidate.unit.id)
    return hold.passed_by(candidate) or (hold.tier > Tier.GUARANTEED and any(heads))


def moved(holds: Sequence[Hold], placed: Pairs, ground: Ground) -> dict[int, str]:
    """The members to which those of `placed` move that would cost a head its seat, by index. `ground`: what is left
    once all of `placed` has started; changes with who moves. `holds`: as for `passing`."""

    def first(candidate: Candidate, member: str) -> int:
        """The number of the first head that it costs its seat in a member; if none, past the last."""
        costs = (
            number
            for number, hold in enumerate(holds)
            if hold.member == member and _passes(candidate, hold, holds) and not hold.spares_room(candidate.shape)
        )
        return next(costs, len(holds))

    def better(candidate: Candidate, home: str) -> tuple[str, Fit] | None:
        """Where it costs none its seat, or else only later ones."""
        here = first(candidate, home)
        none = ground.elsewhere(candidate, lambda member: first(candidate, member) == len(holds))
        return none or ground.elsewhere(candidate, lambda member: first(candidate, member) > here)

    found: dict[int, str] = {}
    for index in passing(holds, placed):
        candidate, home = placed[index]
        other = better(candidate, home)
        if other is not None:
            found[index] = other[0]
            ground.move(*other)
            for hold in holds:
                if hold.member == other[0]:
                    hold.see(candidate, other[0])
    return found


def with_moves(placed: Pairs, moves: Mapping[int, str]) -> list[tuple[Candidate, str]]:
    """Who is where then."""
    return [(candidate, moves.get(index, member)) for index, (candidate, member) in enumerate(placed)]
