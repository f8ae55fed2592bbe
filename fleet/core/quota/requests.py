"""The charges of units, computed once for all gangs that are alike."""

from __future__ import annotations

from fleet.core.model.amounts import Amounts
from fleet.core.model.gang import Key, gang_key
from fleet.core.model.unit import Unit
from fleet.core.quota.usage import request_of


class Requests:
    """`request_of` with a memory, which lives as long as one decision: nothing is ever forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[Key, bool], Amounts] = {}

    def of(self, unit: Unit) -> Amounts:
        """Return the charge of the unit at each node."""
        alike = (gang_key(unit.components), unit.preemptible)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = request_of(unit)
        return found
