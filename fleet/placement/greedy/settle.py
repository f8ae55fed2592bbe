"""Filling up until nothing more starts, each time in the rooms that the next cycle will see.

Gangs are packed one after another, and laid out again by the next cycle as a whole. A plan counts only once it is
complete in that layout: planning again on its result then changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fleet.placement.candidates.candidate import Candidate, service_order
from fleet.placement.greedy.greedy import Pass, place
from fleet.placement.greedy.situation import Pairs, Situation
from fleet.placement.packing.room import MemberRoom
from fleet.placement.reservation.profile import Profile
from fleet.quota.usage import Usage

MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """The units that start, with their members, and the profile after them. `out`: units that fit a member, but not
    beside all others there."""

    placed: Pairs
    profile: Profile
    done: Pass
    out: dict[str, str] = field(default_factory=dict)


def settle(
    situation: Situation, profile: Profile, placed: Sequence[tuple[Candidate, str]], barred: Iterable[str] = ()
) -> Outcome:
    """`placed`, which `profile` counts already, and all that starts beside it. `barred`: units that may not start."""
    out = dict.fromkeys(barred, "")
    placed = list(placed)
    done = Pass()
    laid_out = False  # whether `profile` is what the next cycle will see
    for _ in range(MOST_ROUNDS):
        started = {candidate.unit.id for candidate, _ in placed} | situation.new
        before = tuple(placed)
        done = place(
            profile, situation.groups, situation.chosen.heads, started, out,
            lambda new, before=before: situation.spans((*before, *new)),  # type: ignore[misc]
        )  # fmt: skip
        placed += done.placed
        if not placed or (laid_out and not done.placed):
            break
        rooms = _whole(situation, placed, profile.usage, out)
        profile = Profile(rooms, profile.usage, situation.space, situation.spans(placed))
        laid_out = True
        if not done.placed:
            break
    return Outcome(placed, profile, done, {unit: member for unit, member in out.items() if member})


def _whole(situation: Situation, placed: Pairs, usage: Usage | None, out: dict[str, str]) -> dict[str, MemberRoom]:
    """The rooms that the next cycle sees, once a gang without a place in that layout is out of `placed` and `usage`,
    and in `out`: one after another a set of gangs may fit, and laid out by its sizes it may not. Of the lowest
    priority there the gangs without a place go, or, if those are of a higher one, the last."""
    layout = situation.layout(placed)
    while short := [name for name, units in layout.lost.items() if not situation.lost.issuperset(units)]:
        back: list[int] = []
        for name in short:
            here = [index for index, (_, member) in enumerate(placed) if member == name]
            worst = max((service_order(placed[index][0])[:2] for index in here), default=None)
            low = [index for index in here if service_order(placed[index][0])[:2] == worst]
            back += [index for index in low if placed[index][0].unit.id in layout.lost[name]] or low[-1:]
        if not back:
            break
        out |= {placed[index][0].unit.id: placed[index][1] for index in back}
        gone = [placed[index] for index in _with_followers(placed, back)]
        for pair in gone:
            placed.remove(pair)
            if usage is not None and pair[0].account is not None:
                usage.charge(pair[0].account, pair[0].request, -1)
        again = situation.layout(placed, sorted({member for _, member in gone}))
        layout.rooms.update(again.rooms)
        layout.lost = again.lost
    return situation.less_kept(layout.rooms, placed)


def _with_followers(placed: Pairs, indices: Iterable[int]) -> list[int]:
    """These of `placed`, and all that stand behind one of them in a queue that starts strictly in order."""
    found = set(indices)
    for index in list(found):
        first = placed[index][0]
        if first.block:
            behind = (i for i, (c, _) in enumerate(placed) if c.unit.leaf == first.unit.leaf and c.block)
            found |= {i for i in behind if service_order(placed[i][0]) > service_order(first)}
    return sorted(found)
