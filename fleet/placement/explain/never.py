"""Why a gang fits no member even if nothing ran there."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.model.member import Member
from fleet.model.reason import Code, Reason
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.candidates.nevers import Nevers
from fleet.placement.explain.closest import closest
from fleet.placement.explain.nodefit import Stock, no_node
from fleet.placement.packing.space import Space


class Never:
    """Reasons for the gangs that `nevers` knows, with the nodes of the members."""

    def __init__(self, members: Mapping[str, Member], nevers: Nevers, space: Space) -> None:
        self._members = members
        self._nevers = nevers
        self._space = space
        self._stocks: dict[str, Stock] = {}

    def reason(self, shape: int, eligibility: Eligibility) -> Reason | None:
        """Why it would fit no member even if nothing ran there; None when it would fit one."""
        if not self._nevers.of(shape, eligibility):
            return None
        parts = self._space.shapes[shape]
        for name in eligibility.allowed:
            if name not in self._stocks:
                self._stocks[name] = Stock.of(self._members[name])
        found = no_node(parts, [self._stocks[name] for name in eligibility.allowed], self._space)
        if found is not None:
            return found
        return Reason(Code.TOO_LARGE, closest(parts, self._nevers.rooms(shape, eligibility), self._space, empty=True))
