"""Tiers: what work may count on. Guaranteed within `min`, else within its leaf's fair share, else borrowed.

Work is ranked within its leaf: what runs (or leaves) first, by priority, then by start, and before all of it what may
not be preempted: what nobody could take back uses up min first, or the rest of the leaf would stand on the same
promise once more, and others would never get theirs. Then what waits, in the order of its queue. Each is guaranteed
while all ranked so far and it are within the leaf's min, and so within that of every node above, since promises to
children never add up to more than their parent's. It is within the fair share as long as what is ranked before it is
below the share in every resource that it asks for: so a leaf may exceed its share by its next one unit, and large
gangs are not shut out. A waiting gang that is too large for what is left of min leaves it to smaller ones behind it,
except in a queue with policy Block, where nobody counts on more than the one ahead.

Waiting units alike are ranked together: usage only grows while a leaf is walked through, so once one of them is refused
all behind it are, and two numbers tell the tiers of all. A walk costs what is within the share, not what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.quota.guarantee import Guarantees
from fleet.quota.tree import MAX_JOBS
from fleet.quota.usage import FIRM


class Tier(IntEnum):
    """Smaller is served first. Work outside quota is neither promised anything nor borrows: SHARE."""

    GUARANTEED = 0
    SHARE = 1
    BORROWED = 2


class Ranked(Protocol):
    """Units of one leaf and priority that are charged the same and ranked alike, in the order of their queue; `block`:
    nobody counts on more than they do once one of them is refused."""

    @property
    def leaf(self) -> str | None: ...

    @property
    def units(self) -> Sequence[Unit]: ...

    @property
    def request(self) -> Amounts: ...

    @property
    def block(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A Ranked of one unit, and nothing else."""

    unit: Unit
    request: Amounts
    block: bool = False

    @property
    def leaf(self) -> str | None:
        return self.unit.leaf

    @property
    def units(self) -> tuple[Unit]:
        return (self.unit,)


Rank = tuple[int, int]  # of units alike: how many are guaranteed, and how many are guaranteed or within the share
Limits = tuple[tuple[str, int, int], ...]  # resource, amount of one unit, what its leaf may count on of it


class Ranks:
    """Tiers of the units of one snapshot."""

    def __init__(self, promises: Guarantees, shares: Mapping[str, Mapping[str, int]]) -> None:
        self._mins = promises.min
        self._promised = promises.resources
        self._shares = shares

    def running(self, holding: Iterable[tuple[Unit, Amounts]]) -> dict[str, Tier]:
        """Tiers of what runs or leaves, by unit id; units whose leaf is gone borrow."""
        leaves: dict[str, list[tuple[Unit, Amounts]]] = {}
        for unit, request in holding:
            if unit.leaf is not None:
                leaves.setdefault(unit.leaf, []).append((unit, request))
        found: dict[str, Tier] = {}
        for leaf, items in leaves.items():
            used: dict[str, int] = {}
            items.sort(key=lambda c: (c[0].preemptible, -c[0].priority, c[0].placed_at or 0.0, c[0].name, c[0].id))
            for unit, request in items:
                found[unit.id] = self.of(leaf, request, used)
                add(used, request)
        return found

    def of(self, leaf: str, request: Amounts, used: Mapping[str, int]) -> Tier:
        """The tier of one unit beside what its leaf uses."""
        if _within(used, self._promise(leaf, request)):
            return Tier.GUARANTEED
        return Tier.SHARE if _below(used, self._share(leaf, request)) else Tier.BORROWED

    def waiting(self, used: Mapping[str, Mapping[str, int]], waiting: Sequence[Ranked]) -> list[Rank]:
        """The rank of each of `waiting`. `used`: what is charged in each leaf."""
        leaves: dict[str, list[int]] = {}
        for number, item in enumerate(waiting):
            if item.leaf is not None:
                leaves.setdefault(item.leaf, []).append(number)
        found: list[Rank] = [(0, 0)] * len(waiting)
        for leaf, numbers in leaves.items():
            now = dict(used.get(leaf, {}))
            asked = {id(waiting[n].request): waiting[n].request for n in numbers}  # many groups ask for the same
            promised = {key: self._promise(leaf, request) for key, request in asked.items()}
            shared = {key: self._share(leaf, request) for key, request in asked.items()}
            first = _walk(waiting, {n: (0, promised[id(waiting[n].request)]) for n in numbers}, now, _within)
            rest = {n: (first[n], shared[id(waiting[n].request)]) for n in numbers}
            then = _walk(waiting, rest, now, _below)
            for n in numbers:
                found[n] = (first[n], then[n])
        return found

    def _promise(self, leaf: str, request: Amounts) -> Limits:
        """What must hold for the request to be within min; empty when nothing is promised."""
        limits = self._mins.get(leaf)
        if not limits:
            return ()
        return tuple(
            (n, amount, limits.get(n, 0)) for n, amount in request.items_ if n in self._promised and amount > 0
        )

    def _share(self, leaf: str, request: Amounts) -> Limits:
        share = self._shares.get(leaf)
        if not share:
            return ()
        return tuple((n, amount, share[n]) for n, amount in request.items_ if n in share and amount > 0)


def _within(used: Mapping[str, int], limits: Limits) -> bool:
    return bool(limits) and all(used.get(name, 0) + amount <= limit for name, amount, limit in limits)


def _below(used: Mapping[str, int], limits: Limits) -> bool:
    return bool(limits) and all(used.get(name, 0) < limit for name, _, limit in limits)


def _walk(
    waiting: Sequence[Ranked],
    starts: Mapping[int, tuple[int, Limits]],
    used: dict[str, int],
    counts: Callable[[Mapping[str, int], Limits], bool],
) -> dict[int, int]:
    """How far those of one leaf count, in the order of their queue, by number; each from its start on. `used` grows
    by what counts."""
    ends = {number: start for number, (start, _) in starts.items()}
    queue: list[tuple[int, float, str, str, int]] = []
    for number, (start, limits) in starts.items():
        item = waiting[number]
        if start < len(item.units) and (item.block or counts(used, limits)):  # who is refused now is refused for good
            queue.append((*_turn(item.units[start]), number))
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
            heapreplace(queue, (*_turn(item.units[at]), number))
        else:
            heappop(queue)
    return ends


def _turn(unit: Unit) -> tuple[int, float, str, str]:
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)


def add(used: dict[str, int], request: Amounts, times: int = 1) -> None:
    """Charge a request in a leaf's ranking, which counts resources, not jobs."""
    for name, amount in request.items_:
        if name != MAX_JOBS and not name.startswith(FIRM):
            used[name] = used.get(name, 0) + amount * times
