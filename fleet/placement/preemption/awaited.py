"""What heads wait for, while others take back: their quota is theirs at their moment, whoever claims room before.

A head may be one that evicts nobody (its leaf's `preempt-policy`, its priority), and others do not take back for it.
Whom it binds may take back all the same, so much that it suffices for both: at its moment the head has its quota beside
what is claimed. What it waits for anyway is of no use to it then; only what would still run at that time is. Room that
is kept for the sake of a head (bypass.py) stays kept from those that are not guaranteed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from fleet.placement.candidates.candidate import Candidate
from fleet.placement.greedy.ground import Ground
from fleet.placement.packing.space import Shape
from fleet.placement.preemption.runners import Work
from fleet.placement.reservation.hold import Hold
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage


class Awaited:
    """See the module; `ground`: with the heads' holds. Changes with what leaves and what room is kept for."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._usages: dict[int, Usage] = {  # at the moment of a head, by its number
            number: hold.usage.copy() for number, hold in enumerate(ground.holds) if hold.usage is not None
        }

    def fork(self) -> Awaited:
        """Another one that changes by itself from now on."""
        other = copy(self)
        other._usages = {number: usage.copy() for number, usage in self._usages.items()}
        return other

    def binding(self, candidate: Candidate) -> tuple[int, ...]:
        """The heads, by number, that keep quota from it."""
        bound = self._ground.bound(candidate) if self._usages and candidate.account is not None else 0
        return tuple(number for number in self._usages if bound & 1 << number)

    def kept(self, candidate: Candidate, member: str) -> Sequence[Shape]:
        """Gangs for which room is kept there from this one: from all that is not guaranteed."""
        return () if candidate.tier is Tier.GUARANTEED else self._ground.kept.get(member, ())

    def at(self, binding: Iterable[int]) -> list[tuple[Hold, Usage]]:
        """These heads, and what will be used at their moments."""
        return [(self._hold(number), self._usages[number]) for number in binding]

    def leave(self, work: Work) -> None:
        for number, usage in self._usages.items():
            if work.account is not None and self._hold(number).meets(work.unit, work.tier):
                usage.charge(work.account, work.request, -1)

    def keep(self, candidate: Candidate) -> None:
        """Room, and quota, is kept for it."""
        for number, usage in self._usages.items():
            hold = self._hold(number)
            mine = hold.head.unit.id == candidate.unit.id  # it is counted there already
            if candidate.account is not None and not mine and hold.outlasts(candidate.unit, candidate.tier):
                usage.charge(candidate.account, candidate.request)

    def spares(self, candidate: Candidate, binding: Iterable[int], gone: Iterable[Work]) -> bool:
        """Whether these heads have their quota beside it once these have left, too."""
        return all(self._spares(hold, usage, candidate, gone) for hold, usage in self.at(binding))

    def _hold(self, number: int) -> Hold:
        return self._ground.holds[number]

    @staticmethod
    def _spares(hold: Hold, usage: Usage, candidate: Candidate, gone: Iterable[Work]) -> bool:
        met = [(w.account, w.request) for w in gone if w.account is not None and hold.meets(w.unit, w.tier)]
        for account, request in met:
            usage.charge(account, request, -1)
        refusal = usage.refusal(candidate.account or "", candidate.request)
        for account, request in met:
            usage.charge(account, request)
        return refusal is None
