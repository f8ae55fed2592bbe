"""What a unit may count on before the work of its own leaf that is behind it.

Tiers rank what runs before all that waits: a large gang whose leaf's small jobs, one after another, use up the leaf's
guarantee and share is above both in every cycle, although it came first. So whether room is collected for a unit is
asked in the order of its queue: of what its leaf runs and what waits there, only that counts which is before it, by
priority, then by time of enqueueing. Who may take back, and from whom, still follows from tiers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate, Group, order
from fleet.quota.entitlement import Entitlement
from fleet.quota.tiers import Tier, add
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.snapshot.backlog import gang_key

Line = list[tuple[tuple[int, float, str, str], Amounts]]


class Precedence:
    """For the units of one snapshot. `entitled`: None without a tree."""

    def __init__(self, snapshot: Snapshot, entitled: Entitlement | None) -> None:
        self._snapshot = snapshot
        self._entitled = entitled
        self._lines: dict[str, Line] | None = None
        self._requests: dict[tuple[object, bool], Amounts] = {}

    def tier(self, candidate: Candidate, waiting: Sequence[Group]) -> Tier:
        """What it may count on; never less than its tier. `waiting`: the groups of its leaf that could start."""
        leaf, entitled = candidate.unit.leaf, self._entitled
        if leaf is None or entitled is None or candidate.tier is Tier.GUARANTEED:
            return candidate.tier
        alone = entitled.tier(leaf, candidate.request, {})
        if alone >= candidate.tier:
            return candidate.tier
        return min(candidate.tier, entitled.tier(leaf, candidate.request, self._before(leaf, candidate.unit, waiting)))

    def _before(self, leaf: str, unit: Unit, waiting: Sequence[Group]) -> dict[str, int]:
        """What is before it in its leaf."""
        turn = order(unit)
        used: dict[str, int] = {}
        for at, request in self._line(leaf):
            if at < turn:
                add(used, request)
        for group in waiting:
            if group.priority >= unit.priority:
                count = bisect_left(group.units, turn, key=order)
                if count:
                    add(used, group.request, count)
        return used

    def _line(self, leaf: str) -> Line:
        """What runs or leaves of a leaf, each with its place in the order of the queue."""
        if self._lines is None:
            self._lines = {}
            for unit in self._snapshot.backlog.holding.values():
                if unit.leaf is not None:
                    self._lines.setdefault(unit.leaf, []).append((order(unit), self._request(unit)))
        return self._lines.get(leaf, [])

    def _request(self, unit: Unit) -> Amounts:
        key = (gang_key(unit.components), unit.preemptible)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = request_of(unit)
        return found
