"""Tiers: the claims of the work of a leaf to its room.

Guaranteed: within the leaf's `min`, and so within the `min` of every node above it, since promises to children never
add up to more than their parent's. Share: within the leaf's fair share. Crossing: the leaf is below its share before
the unit and above it after; so a share shuts no large gang out. Borrowed: the leaf is at its share, or above it.

Units are ranked within their leaf, and each is measured beside the units that are ranked before it:

1. Units that hold room (they run or leave): first those that may not be preempted, then by priority, then by start. No
   other leaf can take back the room of the first ones, so they use up `min` before the others. A unit that holds room
   is never Crossing: the unit is Borrowed, so that another leaf can take the excess back, or Share until its
   `share_until`.
2. Waiting units, in queue order, three times: first for the guaranteed units, then for the units within the share, then
   for the unit that crosses. A unit that is too large for what is left leaves it to smaller units behind it, except in
   a Block queue.

Waiting units alike are ranked together. The usage of a leaf only grows while it is walked through, so all units behind
a refused one of the same kind are refused, too, and three numbers tell the tiers of all (`Rank`). The cost of a walk
follows from the units that count, and not from the units that wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, Protocol

from fleet.core.model.amounts import Amounts
from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.quota.guarantee import Guarantees
from fleet.core.quota.limits import COUNTS, FIRM

TIERS = tuple(Tier)


class Rank(NamedTuple):
    """How many of waiting units alike, from the first on, are in a tier or in one that is served before it."""

    guaranteed: int = 0
    share: int = 0
    crossing: int = 0

    def tier(self, index: int) -> Tier:
        """The tier of one of the units, by its place among them."""
        return TIERS[bisect_right(self, index)]

    def ranges(self, count: int) -> list[tuple[Tier, int, int]]:
        """The ranges (start, end) of `count` units that are in one tier, in the order of the tiers."""
        ranges = zip(TIERS, (0, *self), (*self, count), strict=True)
        return [(tier, start, end) for tier, start, end in ranges if start < end]


class RankedUnits(Protocol):
    """Units of one leaf and priority that are charged the same and ranked alike, in queue order. `block`: once one of
    them is refused, no unit behind it counts."""

    @property
    def leaf(self) -> str | None: ...

    @property
    def units(self) -> Sequence[Unit]: ...

    @property
    def request(self) -> Amounts: ...

    @property
    def block(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """A RankedUnits, and nothing else."""

    units: Sequence[Unit]
    request: Amounts
    block: bool = False

    @property
    def leaf(self) -> str | None:
        return self.units[0].leaf


Limits = tuple[tuple[str, int, int], ...]  # resource, amount of one unit, what its leaf may count on of it
Counts = Callable[[Mapping[str, int], Limits], bool]  # whether one unit more counts, beside what its leaf uses


class Ranks:
    """Tiers of the units of one snapshot. `now`: an epoch second."""

    def __init__(self, promises: Guarantees, shares: Mapping[str, Mapping[str, int]], now: float) -> None:
        self._mins = promises.min
        self._measured = promises.measured
        self._shares = shares
        self._now = now

    def of(self, leaf: str, request: Amounts, used: Mapping[str, int]) -> Tier:
        """The tier of one unit more of a leaf that uses so much."""
        return _tier(used, self._promise(leaf, request), self._share(leaf, request))

    def running(self, holding: Iterable[tuple[Unit, Amounts]]) -> dict[str, Tier]:
        """Tiers of the units that hold room, by unit id."""
        leaves: dict[str, list[tuple[Unit, Amounts]]] = {}
        for unit, request in holding:
            if unit.leaf is not None:
                leaves.setdefault(unit.leaf, []).append((unit, request))
        tiers: dict[str, Tier] = {}
        for leaf, items in leaves.items():
            used: dict[str, int] = {}
            limits: dict[int, tuple[Limits, Limits]] = {}  # by identity: many units ask for the same
            items.sort(key=lambda c: (c[0].preemptible, -c[0].priority, c[0].placed_at or 0.0, c[0].name, c[0].id))
            for unit, request in items:
                if id(request) not in limits:
                    limits[id(request)] = (self._promise(leaf, request), self._share(leaf, request))
                tier = _tier(used, *limits[id(request)])
                if tier > Tier.SHARE:
                    tier = Tier.SHARE if (unit.share_until or 0.0) > self._now else Tier.BORROWED
                tiers[unit.id] = tier
                add(used, request)
        return tiers

    def waiting(self, used: Mapping[str, Mapping[str, int]], waiting: Sequence[RankedUnits]) -> list[Rank]:
        """The rank of each of `waiting`. `used`: the charges in each leaf."""
        leaves: dict[str, list[int]] = {}
        for number, item in enumerate(waiting):
            if item.leaf is not None:
                leaves.setdefault(item.leaf, []).append(number)
        ranks = [Rank()] * len(waiting)
        for leaf, numbers in leaves.items():
            now = dict(used.get(leaf, {}))
            asked = {id(waiting[n].request): waiting[n].request for n in numbers}  # many groups ask for the same
            promises = {key: self._promise(leaf, request) for key, request in asked.items()}
            shares = {key: self._share(leaf, request) for key, request in asked.items()}
            ends: list[dict[int, int]] = [dict.fromkeys(numbers, 0)]
            walks: tuple[tuple[dict[int, Limits], Counts], ...] = (
                (promises, _within),
                (shares, _within),
                (shares, _below),
            )
            for limits, counts in walks:
                starts = {n: (start, limits[id(waiting[n].request)]) for n, start in ends[-1].items()}
                ends.append(_walk(waiting, starts, now, counts))
            for n in numbers:
                ranks[n] = Rank(*(end[n] for end in ends[1:]))
        return ranks

    def _promise(self, leaf: str, request: Amounts) -> Limits:
        """The bounds that must hold for the request to be within min; empty when nothing is promised."""
        limits = self._mins.get(leaf)
        if not limits:
            return ()
        measured = self._measured[leaf]
        return tuple((n, amount, limits.get(n, 0)) for n, amount in request.items_ if n in measured and amount > 0)

    def _share(self, leaf: str, request: Amounts) -> Limits:
        share = self._shares.get(leaf)
        if not share:
            return ()
        return tuple((n, amount, share[n]) for n, amount in request.items_ if n in share and amount > 0)


def _tier(used: Mapping[str, int], promise: Limits, share: Limits) -> Tier:
    """The tier of one unit more beside what its leaf uses. `promise`, `share`: what the leaf may count on."""
    if _within(used, promise):
        return Tier.GUARANTEED
    if _within(used, share):
        return Tier.SHARE
    return Tier.CROSSING if _below(used, share) else Tier.BORROWED


def _within(used: Mapping[str, int], limits: Limits) -> bool:
    return bool(limits) and all(used.get(name, 0) + amount <= limit for name, amount, limit in limits)


def _below(used: Mapping[str, int], limits: Limits) -> bool:
    return bool(limits) and all(used.get(name, 0) < limit for name, _, limit in limits)


def _walk(
    waiting: Sequence[RankedUnits], starts: Mapping[int, tuple[int, Limits]], used: dict[str, int], counts: Counts
) -> dict[int, int]:
    """How far the units of one leaf count, in queue order, by number; each from its start on. `used` grows by the units
    that count."""
    ends = {number: start for number, (start, _) in starts.items()}
    queue: list[tuple[int, float, str, str, int]] = []
    for number, (start, limits) in starts.items():
        item = waiting[number]
        if start < len(item.units) and (item.block or counts(used, limits)):  # a refusal now is a refusal for good
            queue.append((*queue_order(item.units[start]), number))
    heapify(queue)
    while queue:
        number = queue[0][4]
        item, at = waiting[number], ends[number]
        if not counts(used, starts[number][1]):
            if item.block:
                break
            heappop(queue)
            continue
        add(used, item.request)
        ends[number] = at = at + 1
        if at < len(item.units):
            heapreplace(queue, (*queue_order(item.units[at]), number))
        else:
            heappop(queue)
    return ends


def add(used: dict[str, int], request: Amounts, times: int = 1) -> None:
    """Charge a request in a leaf's ranking, which counts resources, not jobs."""
    for name, amount in request.items_:
        if name not in COUNTS and not name.startswith(FIRM):
            used[name] = used.get(name, 0) + amount * times
