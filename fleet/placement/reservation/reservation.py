"""A reservation: room in one member, and quota along its path, kept for one unit from an expected start on.

As in EASY and conservative backfill, a unit that comes later in service order starts only where every reservation
that binds it is spared. A *claim* binds all other units from now on, so its room and quota leave the profile. A *head*
starts when enough of what runs has ended; until then units that end in time may use its room. A unit that is Reserved
needs none: its room is *held* in the profile as if it ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.quota.tiers import Tier


class Kind(StrEnum):
    CLAIM = "claim"  # its victims are leaving
    HEAD = "head"  # its unit waited past the bound


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room for the shape of `holder` in `member`, and quota for its request along the path of its account.

    Times are epoch seconds. `start` is expected; where it is not `certain`, units of unknown length must end, too.
    `since`: units of unknown length that started later do not give way before it. `overdue`: it binds the guaranteed
    units of other leaves as well.
    """

    kind: Kind
    holder: Candidate
    member: str
    start: float
    since: float
    certain: bool = True
    overdue: bool = False

    def binds(self, unit: Unit, tier: Tier) -> bool:
        """Whether a unit of this tier comes after the reservation: it may start only where it spares the reservation.

        A reservation binds its whole leaf but for higher priorities, and other leaves by tier, then priority. Between
        equal ones the reservation comes first."""
        mine = self.holder
        if self.kind is Kind.CLAIM:
            return True
        if unit.leaf == mine.unit.leaf:
            return unit.priority <= mine.unit.priority
        return self.overdue or (tier, -unit.priority) >= (mine.tier, -mine.unit.priority)
