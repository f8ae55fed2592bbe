"""Waiting units as the planner sees them, and the order in which they are served.

In a queue with policy Block no unit starts before the first that waits; in an Intelligent queue, none before the first
of a high priority. So a unit claims room there only if all units that stop the queue ahead of it have claimed room or
start. Else freed room would be kept for a unit that may not start, and its victims would have left for nothing, again
and again. Where a unit without a claim comes in ahead, the units behind it lose their claims.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from fleet.core.model.amounts import Amounts
from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.eligibility import Eligibility
from fleet.core.quota.tiers import Rank
from fleet.core.quota.users import account


@dataclass(slots=True, eq=False)
class Candidate:
    """A waiting unit that may start now, as far as it alone can tell."""

    unit: Unit
    shape: int
    eligibility: Eligibility
    request: Amounts
    block: bool  # no other unit of its queue starts before it
    tier: Tier
    account: str | None  # where quota charges it: its leaf, with its user where quota counts by user


@dataclass(eq=False)
class Group:
    """Waiting units alike, by turn. A fact about one `Candidate` of them is a fact about all, but for three: the tier
    follows from `rank`, quota may count `by_user`, and walltimes differ. `ids` belong to `units`. Ranges of units are
    given as (start, end)."""

    units: Sequence[Unit]
    ids: Sequence[str]
    shape: int
    eligibility: Eligibility
    request: Amounts
    block: bool
    leaf: str | None
    priority: int
    preemptible: bool
    rank: Rank = field(default_factory=Rank)
    by_user: bool = False

    @staticmethod
    def alone(candidate: Candidate) -> Group:
        """A group of one unit, in its tier."""
        unit = candidate.unit
        rank = Rank(*(int(candidate.tier <= bound) for bound in (Tier.GUARANTEED, Tier.SHARE, Tier.CROSSING)))
        return Group(
            (unit,),
            (unit.id,),
            candidate.shape,
            candidate.eligibility,
            candidate.request,
            candidate.block,
            unit.leaf,
            unit.priority,
            unit.preemptible,
            rank,
            candidate.account != unit.leaf,
        )

    @cached_property
    def timed(self) -> bool:
        """Whether the walltimes of the units differ."""
        first = self.units[0].walltime_s
        return any(unit.walltime_s != first for unit in self.units)

    @cached_property
    def _accounts(self) -> Sequence[str | None]:
        users = {unit.user for unit in self.units}
        names = {user: account(self.leaf or "", user) if user else self.leaf for user in users}
        return [names[unit.user] for unit in self.units]

    def account(self, index: int) -> str | None:
        """Where quota charges one of the units."""
        return self._accounts[index] if self.by_user else self.leaf

    @property
    def firsts(self) -> Iterator[Candidate]:
        """The first unit of each account, in the order of the units."""
        seen: set[str | None] = set()
        for index in range(len(self.units) if self.by_user else 1):
            if self.account(index) not in seen:
                seen.add(self.account(index))
                yield self.candidate(index)

    @property
    def segments(self) -> list[tuple[Tier, int, int]]:
        """The ranges of units in one tier, in the order of the units."""
        if self.leaf is None:
            return [(Tier.SHARE, 0, len(self.units))]
        return self.rank.ranges(len(self.units))

    def candidate(self, index: int) -> Candidate:
        tier = Tier.SHARE if self.leaf is None else self.rank.tier(index)
        return Candidate(
            self.units[index], self.shape, self.eligibility, self.request, self.block, tier, self.account(index)
        )

    def next(self, start: int, end: int, skip: Container[str]) -> int:
        """The first index from `start` on, below `end`, whose unit is not to skip; else `end`."""
        ids = self.ids
        while start < end and ids[start] in skip:
            start += 1
        return start


def without(exclusions: AbstractSet[str], groups: Iterable[Group]) -> list[Group]:
    """The groups less some of their units; the others keep their tiers."""
    rest: list[Group] = []
    for group in groups:
        if exclusions.isdisjoint(group.ids):
            rest.append(group)
            continue
        left = [index for index, key in enumerate(group.ids) if key not in exclusions]
        if left:
            rank = Rank(*(bisect_left(left, bound) for bound in group.rank))
            units, ids = [group.units[index] for index in left], [group.ids[index] for index in left]
            rest.append(replace(group, units=units, ids=ids, rank=rank))
    return rest


def service_order(candidate: Candidate) -> tuple[int, int, float, str, str]:
    """Return the sort key of a candidate among all: its tier, then its queue order; the smallest key is first."""
    return (candidate.tier, *queue_order(candidate.unit))


def claims_room(candidate: Candidate, now: float) -> bool:
    """Whether a candidate has a claim on room that it may still use."""
    claim = candidate.unit.claim
    if claim is None or claim.until <= now:
        return False
    return any(choice.member == claim.member for choice in candidate.eligibility.choices)


Turn = tuple[int, float, str, str]
Gaps = dict[str | None, Turn]


def gaps(groups: Iterable[Group], passed: Container[str], able: Callable[[Group], int]) -> Gaps:
    """By leaf, the turn of the first unit that stops it and is in the way of the units behind. Units in `passed` are in
    no unit's way, nor are the first units of a group: `able` counts these, which might claim room themselves."""
    turns: Gaps = {}
    for group in groups:
        if not group.block:
            continue
        at = group.next(able(group), len(group.units), passed)
        if at < len(group.units):
            turn = queue_order(group.units[at])
            turns[group.leaf] = min(turn, turns.get(group.leaf, turn))
    return turns


def before(candidate: Candidate, found: Gaps) -> bool:
    """Whether no unit with a turn in `found` is in the way of a candidate."""
    leaf = candidate.unit.leaf
    return leaf not in found or queue_order(candidate.unit) < found[leaf]
