"""Whose turn it is to claim room in queues that start strictly in order.

In a queue with policy Block nobody starts before the first that waits, in an Intelligent one nobody before the first of
a high priority. So room is claimed there only by whom nobody is in the way: all that stop the queue ahead of it have
claimed room, too, or start. Else freed room would be kept for one that may not start, and those who left would have
left for nothing, again and again. Where one without a claim comes in ahead, those behind it lose theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from fleet.model.order import queue_order
from fleet.placement.candidates.candidate import Candidate, Group

Turn = tuple[int, float, str, str]
Gaps = dict[str | None, Turn]


def gaps(groups: Iterable[Group], passed: Container[str], able: Callable[[Group], int]) -> Gaps:
    """By leaf, the turn of the first that stops it and is in the way of those behind. `passed`: who is in nobody's way;
    `able`: how many of a group, from its first on, are not, since they might claim room themselves."""
    found: Gaps = {}
    for group in groups:
        if not group.block:
            continue
        at = group.next(able(group), len(group.units), passed)
        if at < len(group.units):
            turn = queue_order(group.units[at])
            found[group.leaf] = min(turn, found.get(group.leaf, turn))
    return found


def before(candidate: Candidate, found: Gaps) -> bool:
    """Whether none of these is in its way."""
    leaf = candidate.unit.leaf
    return leaf not in found or queue_order(candidate.unit) < found[leaf]
