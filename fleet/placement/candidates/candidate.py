"""Waiting units as the planner sees them, and the order in which they are served.

In a queue with policy Block no unit starts before the first that waits; in an Intelligent queue, none before the first
of a high priority. So a unit claims room there only if all units that stop the queue ahead of it have claimed room or
start. Else freed room would be kept for a unit that may not start, and its victims would have left for nothing, again
and again. Where a unit without a claim comes in ahead, the units behind it lose their claims.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fleet.model.amounts import Amounts
from fleet.model.order import queue_order
from fleet.model.unit import Unit
from fleet.placement.candidates.eligibility import Eligibility
from fleet.quota.tiers import Rank, Tier
from fleet.quota.users import account


@dataclass(slots=True, eq=False)
class Candidate:
    """A waiting unit that may start now, as far as it alone can tell."""

    unit: Unit
    shape: int
    eligibility: Eligibility
    request: Amounts
    block: bool  # nobody of its queue starts before it
    tier: Tier = Tier.SHARE
    account: str | None = None  # where it is charged; its leaf unless given

    def __post_init__(self) -> None:
        if self.account is None:
            self.account = self.unit.leaf


@dataclass(slots=True, eq=False)
class Group:
    """Waiting units alike, by turn: what holds for a `Candidate` of one of them holds for all, but for the tier, which
    follows from `rank`, the account where quota counts `by_user`, and the walltime. `ids` are those of `units`. Ranges
    of units are given as (start, end)."""

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
    _timed: bool | None = field(default=None, init=False)
    _accounts: Sequence[str | None] | None = field(default=None, init=False)

    @staticmethod
    def alone(candidate: Candidate) -> Group:
        """A group of one unit, in its tier."""
        unit, tier = candidate.unit, candidate.tier
        return Group(
            (unit,), (unit.id,), candidate.shape, candidate.eligibility, candidate.request, candidate.block, unit.leaf,
            unit.priority, unit.preemptible, rank_of(tier), candidate.account != unit.leaf,
        )  # fmt: skip

    @property
    def timed(self) -> bool:
        """Whether their walltimes differ."""
        if self._timed is None:
            first = self.units[0].walltime_s
            self._timed = any(unit.walltime_s != first for unit in self.units)
        return self._timed

    def account(self, index: int) -> str | None:
        """Where one of them is charged."""
        if not self.by_user or self.leaf is None:
            return self.leaf
        if self._accounts is None:
            names: dict[str, str] = {"": self.leaf}
            for unit in self.units:
                if unit.user not in names:
                    names[unit.user] = account(self.leaf, unit.user)
            self._accounts = [names[unit.user] for unit in self.units]
        return self._accounts[index]

    @property
    def firsts(self) -> Iterator[Candidate]:
        """The first of those who are charged alike, first come first."""
        if not self.by_user:
            yield self.candidate(0)
            return
        seen: set[str | None] = set()
        for index in range(len(self.units)):
            if self.account(index) not in seen:
                seen.add(self.account(index))
                yield self.candidate(index)

    @property
    def segments(self) -> list[tuple[Tier, int, int]]:
        """The ranges of its units that are in one tier, first come first."""
        if self.leaf is None:
            return [(Tier.SHARE, 0, len(self.units))]
        return self.rank.ranges(len(self.units))

    def candidate(self, index: int) -> Candidate:
        tier = Tier.SHARE if self.leaf is None else self.rank.tier(index)
        return Candidate(
            self.units[index], self.shape, self.eligibility, self.request, self.block, tier, self.account(index)
        )  # fmt: skip

    def next(self, start: int, end: int, skip: Container[str]) -> int:
        """The first index from `start` on, below `end`, whose unit is not to skip; else `end`."""
        ids = self.ids
        while start < end and ids[start] in skip:
            start += 1
        return start


def rank_of(tier: Tier) -> Rank:
    """The rank of one unit in a tier."""
    return Rank(*(int(tier <= bound) for bound in (Tier.GUARANTEED, Tier.SHARE, Tier.CROSSING)))


def without(gone: Container[str], groups: Iterable[Group]) -> list[Group]:
    """The groups less some of their units; the others keep their tiers."""
    found: list[Group] = []
    for group in groups:
        left = [index for index, key in enumerate(group.ids) if key not in gone]
        if len(left) == len(group.ids):
            found.append(group)
        elif left:
            rank = Rank(*(bisect_left(left, bound) for bound in group.rank))
            units, ids = [group.units[index] for index in left], [group.ids[index] for index in left]
            found.append(replace(group, units=units, ids=ids, rank=rank))
    return found


def service_order(candidate: Candidate) -> tuple[int, int, float, str, str]:
    """Return the sort key of a candidate among all: its tier, then its queue order; the smallest key is first."""
    return (candidate.tier, *queue_order(candidate.unit))


def claims_room(candidate: Candidate, now: float) -> bool:
    """Whether room is claimed for it that it may still use."""
    claim = candidate.unit.claim
    return (
        claim is not None
        and claim.until > now
        and any(choice.member == claim.member for choice in candidate.eligibility.choices)
    )


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
