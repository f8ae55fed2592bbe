"""Who leaves a member and will wait again: first in its queue, where it was before those who wait there now.

Until it waits again, its quota is free for whoever claims room, and somebody behind it in its queue would take it
while it is on its way. So nobody claims who would have no quota beside those who come back before it; once they wait,
turns decide. Who comes back is not known for certain (its job may have been deleted): then this has cost the others
the time that it took to leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate, order
from fleet.placement.preemption.runners import Work
from fleet.quota.usage import Usage

_Turn = tuple[int, float, str, str]


class Returning:
    """Those of one snapshot that leave already, by leaf."""

    def __init__(self) -> None:
        self._by_leaf: dict[str, list[tuple[_Turn, str, Amounts]]] = {}

    def add(self, unit: Unit, account: str | None, request: Amounts) -> None:
        """`account`: where it is charged, None outside quota."""
        if unit.leaf is not None and account is not None:
            self._by_leaf.setdefault(unit.leaf, []).append((order(unit), account, request))

    def lets(self, candidate: Candidate, usage: Usage, victims: Iterable[Work] = ()) -> bool:
        """Whether a candidate has quota beside those who come back before it, once the `victims` are gone. `usage`:
        what is used once all who leave are gone; it is the same afterwards."""
        turn = order(candidate.unit)
        charged = [(account, request, 1) for then, account, request in self._before(candidate) if then < turn]
        if not charged:
            return True
        charged += [(work.account, work.request, -1) for work in victims if work.account is not None]
        for account, request, times in charged:
            usage.charge(account, request, times)
        refusal = usage.refusal(candidate.account or "", candidate.request)
        for account, request, times in charged:
            usage.charge(account, request, -times)
        return refusal is None

    def _before(self, candidate: Candidate) -> Iterable[tuple[_Turn, str, Amounts]]:
        return self._by_leaf.get(candidate.unit.leaf or "", ())
