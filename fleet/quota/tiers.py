"""Tiers: what work may count on. Guaranteed within `min`, else within its leaf's fair share, else borrowed.

Work is ranked within its leaf: what runs (or leaves) first, by priority, then by start; then what waits, in the order
of its queue. Each is guaranteed while all ranked so far and it are within the leaf's min, and so within that of every
node above, since promises to children never add up to more than their parent's. It is within the fair share as long as
what is ranked before it is below the share in every resource that it asks for: so a leaf may exceed its share by its
next one unit, and large gangs are not shut out. A waiting gang that is too large for what is left of min leaves it to
smaller ones behind it, except in a queue with policy Block, where nobody counts on more than the one ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
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
    """One unit that is ranked, with what it is charged; `block`: its queue has policy Block."""

    @property
    def unit(self) -> Unit: ...

    @property
    def request(self) -> Amounts: ...

    @property
    def block(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A Ranked and nothing else."""

    unit: Unit
    request: Amounts
    block: bool = False


class Ranks:
    """Tiers of the units of one snapshot."""

    def __init__(self, promises: Guarantees, shares: Mapping[str, Mapping[str, int]]) -> None:
        self._mins = promises.min
        self._promised = promises.resources
        self._shares = shares

    def tiers(self, holding: Iterable[Ranked], waiting: Iterable[Ranked]) -> dict[str, Tier]:
        """By unit id; units whose leaf is gone borrow. `waiting` is in the order of the queues."""
        leaves: dict[str, tuple[list[Ranked], list[Ranked]]] = {}
        for group, items in ((0, holding), (1, waiting)):
            for item in items:
                leaf = item.unit.leaf
                if leaf is not None:
                    both = leaves.get(leaf)
                    if both is None:
                        both = leaves[leaf] = ([], [])
                    both[group].append(item)
        found: dict[str, Tier] = {}
        for leaf in sorted(leaves):
            running, queue = leaves[leaf]
            running.sort(key=lambda c: (-c.unit.priority, c.unit.placed_at or 0.0, c.unit.name, c.unit.id))
            self._leaf(leaf, running, queue, found)
        return found

    def _leaf(self, leaf: str, running: Sequence[Ranked], queue: Sequence[Ranked], found: dict[str, Tier]) -> None:
        used: dict[str, int] = {}
        for item in running:
            within = self._within_min(leaf, used, item.request)
            below = self._below_share(leaf, used, item.request)
            found[item.unit.id] = Tier.GUARANTEED if within else Tier.SHARE if below else Tier.BORROWED
            _add(used, item.request)
        # Usage only grows below, so what was refused once is refused to all alike.
        refused: set[int] = set()  # requests by identity: those of one kind of gang are one object
        later: list[Ranked] = []
        for number, item in enumerate(queue):
            if id(item.request) not in refused and self._within_min(leaf, used, item.request):
                found[item.unit.id] = Tier.GUARANTEED
                _add(used, item.request)
                continue
            later.append(item)
            refused.add(id(item.request))
            if item.block:
                later += queue[number + 1 :]
                break
        refused.clear()
        stopped = False
        for item in later:
            if stopped or id(item.request) in refused:
                found[item.unit.id] = Tier.BORROWED
                continue
            if self._below_share(leaf, used, item.request):
                found[item.unit.id] = Tier.SHARE
                _add(used, item.request)
            else:
                found[item.unit.id] = Tier.BORROWED
                refused.add(id(item.request))
                stopped = item.block

    def _within_min(self, leaf: str, used: Mapping[str, int], request: Amounts) -> bool:
        limits = self._mins.get(leaf)
        if not limits:
            return False
        named = [(name, amount) for name, amount in request.items_ if name in self._promised and amount > 0]
        return bool(named) and all(used.get(name, 0) + amount <= limits.get(name, 0) for name, amount in named)

    def _below_share(self, leaf: str, used: Mapping[str, int], request: Amounts) -> bool:
        share = self._shares.get(leaf)
        if not share:
            return False
        named = [name for name, amount in request.items_ if name in share and amount > 0]
        return bool(named) and all(used.get(name, 0) < share[name] for name in named)


def _add(used: dict[str, int], request: Amounts) -> None:
    for name, amount in request.items_:
        if name != MAX_JOBS and not name.startswith(FIRM):
            used[name] = used.get(name, 0) + amount
