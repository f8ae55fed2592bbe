"""Room for who has a right to it where what this plan starts lies in the way: nobody leaves for what nobody needs.

Gangs are placed one after another, each onto the fullest nodes that take it, and one may come to lie where another one
would just fit. Before anybody is evicted, that one is placed first, in each of the members that would take it then, and
all that the plan starts beside it: in its own member if it has room there still, else where there is some. Only a
placement of all of them counts. What nothing would be changed by, and more than a few tries, are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fleet.placement.candidates.candidate import Candidate, standing
from fleet.placement.greedy.ground import Ground
from fleet.placement.linked.linked import Pairs
from fleet.placement.preemption.trial import Tries

MOST_LOOKED_AT = 64  # gangs that wait, in one plan
MOST_TRIES = 16  # placements of all
MOST_PLACED = 500  # gangs that would be placed anew


def rearranged(
    fresh: Callable[[], Ground],
    after: Ground,
    placed: Pairs,
    waiting: Iterable[Candidate],
    whole: Callable[[Pairs], bool],
) -> Pairs:
    """`placed`, and those of `waiting`, first come first, that find room beside all of it. `fresh`: the ground before
    anything is placed; `after`: with all that is, where they are charged; `whole`: whether all these have room beside
    one another once laid out again."""
    tries, stopped, seen = Tries(MOST_TRIES), set[str | None](), set[tuple[object, ...]]()
    found = placed
    for candidate in waiting:
        if tries.left <= 0 or not found or len(found) > MOST_PLACED:
            break
        alike = (candidate.account, candidate.tier, candidate.shape, candidate.eligibility.number)
        if candidate.unit.leaf in stopped or alike in seen:
            continue
        able = after.admits(candidate, after.bound(candidate))
        more = next(filter(whole, _placements(fresh, candidate, found, tries)), None) if able else None
        if more is None:
            seen.add(alike)
            if candidate.block:
                stopped.add(candidate.unit.leaf)
            continue
        found = more
        if candidate.account is not None and after.usage is not None:
            after.usage.charge(candidate.account, candidate.request)
    return found


def _placements(fresh: Callable[[], Ground], first: Candidate, placed: Pairs, tries: Tries) -> Iterator[Pairs]:
    """One for each member that would take it first and leaves room for all others, or for others elsewhere."""
    ground = fresh()
    for choice in first.eligibility.choices:
        if tries.left > 0 and ground.fit(first.shape, choice.member, ground.bound(first)) is not None:
            tries.left -= 1
            found = _all_beside(fresh(), first, choice.member, placed)
            if found is not None:
                yield found


def _all_beside(ground: Ground, first: Candidate, member: str, placed: Pairs) -> Pairs | None:
    """All of them, this one in the member; None where one finds no room."""
    found: Pairs = []
    for candidate, own in [(first, member), *sorted(placed, key=lambda pair: standing(pair[0]))]:
        bound = ground.bound(candidate)
        if not ground.admits(candidate, bound):
            return None
        fit = ground.fit(candidate.shape, own, bound)
        best = (own, fit) if fit is not None else ground.best(candidate.shape, candidate.eligibility, bound)
        if best is None:
            return None
        ground.take(candidate, *best)
        found.append((candidate, best[0]))
    return found


def beside(ground: Ground, placed: Pairs) -> Pairs:
    """Those of `placed` that still have room where they were meant to go; changes `ground`."""
    kept: Pairs = []
    stopped: set[str | None] = set()
    for candidate, member in sorted(placed, key=lambda pair: standing(pair[0])):
        bound = ground.bound(candidate)
        able = not (candidate.block and candidate.unit.leaf in stopped) and ground.admits(candidate, bound)
        fit = ground.fit(candidate.shape, member, bound) if able else None
        if fit is not None:
            ground.take(candidate, member, fit)
            kept.append((candidate, member))
        elif candidate.block:
            stopped.add(candidate.unit.leaf)
    return kept
