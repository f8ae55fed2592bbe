"""The ground that gangs are placed on: rooms and usage while a plan is made, and the best member for a gang."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.placement.candidate import Candidate
from fleet.placement.eligibility import Choice, Eligibility
from fleet.placement.room import Fit, MemberRoom, Space
from fleet.quota.usage import Usage


class Ground:
    """Rooms and usage while placing. Answers about a member are kept until its room changes."""

    def __init__(self, rooms: Mapping[str, MemberRoom], usage: Usage | None, space: Space) -> None:
        self.rooms = {name: room.copy() for name, room in rooms.items()}
        self.usage = usage.copy() if usage is not None else None
        self.space = space
        self._devices = space.devices
        self._fits: dict[tuple[int, str, bool], tuple[int, Fit | None]] = {}
        self._grows = any(pool.potential for room in self.rooms.values() for pool in room.pools)

    def fit(self, shape: int, member: str, *, potential: bool = False) -> Fit | None:
        room = self.rooms[member]
        key = (shape, member, potential)
        known = self._fits.get(key)
        if known is not None and (known[0] == room.version or known[1] is None):
            return known[1]
        found = room.fit(self.space.shapes[shape], self._devices, potential=potential)
        self._fits[key] = (room.version, found)
        return found

    def best(self, shape: int, eligibility: Eligibility) -> tuple[str, Fit] | None:
        """Policy's rank and weight first, then the member whose large slots suffer least, then price, then name. Nodes
        that an autoscaler could add are the last choice, after every member that policy allows; fewest of them."""
        best = self._best(shape, eligibility, False)
        return best if best is not None or not self._grows else self._best(shape, eligibility, True)

    def _best(self, shape: int, eligibility: Eligibility, potential: bool) -> tuple[str, Fit] | None:
        best: tuple[Choice, Fit] | None = None
        for choice in eligibility.choices:  # by order, then by what comes after fit
            if best is not None and choice.order > best[0].order:
                break
            fit = self.fit(shape, choice.member, potential=potential)
            if fit is not None and (best is None or (fit.potential, fit.broken) < (best[1].potential, best[1].broken)):
                best = (choice, fit)
        return None if best is None else (best[0].member, best[1])

    def admits(self, candidate: Candidate) -> bool:
        leaf = candidate.unit.leaf
        return leaf is None or self.usage is None or self.usage.refusal(leaf, candidate.request) is None

    def take(self, candidate: Candidate, member: str, fit: Fit) -> None:
        self.rooms[member].take(fit)
        if candidate.unit.leaf is not None and self.usage is not None:
            self.usage.charge(candidate.unit.leaf, candidate.request)
