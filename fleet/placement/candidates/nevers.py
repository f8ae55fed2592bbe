"""Gangs that fit no member even if nothing ran there."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.model.member import Member
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Space


class Nevers:
    """Whether a gang would fit no member even if nothing ran there; answers are kept by shape and eligibility."""

    def __init__(self, members: Mapping[str, Member], space: Space) -> None:
        self._members = members
        self._space = space
        self._never: dict[tuple[int, int], bool] = {}
        self._empty: dict[str, MemberRoom | None] = {}

    def of(self, shape: int, eligibility: Eligibility) -> bool:
        key = (shape, eligibility.number)
        if key not in self._never:
            rooms = self.rooms(shape, eligibility)
            self._never[key] = any(pool.counts for room in rooms for pool in room.pools)
        return self._never[key]

    def rooms(self, shape: int, eligibility: Eligibility) -> list[MemberRoom]:
        """The members that may take it, empty, when none of them has room even so; none when one has, or may have."""
        empty: list[MemberRoom] = []
        for name in eligibility.allowed:
            if name not in self._empty:
                self._empty[name] = MemberRoom.emptied(self._members[name], self._space)
            room = self._empty[name]
            if room is None or room.fit(self._space.shapes[shape], self._space.devices) is not None:
                return []
            empty.append(room)
        return empty
