"""Holding room in a member before the job is sent there, so that the member's own scheduler gives the answer.

A driver speaks for one way of holding room (placeholder pods, Koordinator reservations). Every call is level-triggered
and names the attempt: calling again with the same attempt changes nothing, and what an older attempt holds is released
by the newer one. Without a driver nothing is held, and the hub's inventory alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fleet.model.unit import Component


class Held(StrEnum):
    PENDING = "Pending"  # asked for; ask again, until the attempt's deadline
    HELD = "Held"  # the room of every replica is held
    REFUSED = "Refused"  # the member cannot: release, and try another


@dataclass(frozen=True, slots=True)
class Holding:
    held: Held
    message: str = ""
    nodes: Sequence[str] = ()  # where room is held, one entry a replica; empty when the driver does not say


class ReservationDriver(Protocol):
    """All or nothing: after `release`, or when the deadline that the caller keeps has passed, nothing is left."""

    async def hold(self, member: str, binding: str, attempt: int, components: Sequence[Component]) -> Holding: ...

    async def consume(self, member: str, binding: str, attempt: int) -> Holding:
        """The job is there: let its pods have the room. HELD while some of it is not yet taken."""
        ...

    async def release(self, member: str, binding: str, attempt: int) -> bool:
        """Give everything of this attempt and older ones back; True when nothing is left."""
        ...


class NoReservation:
    """For members without reservation: the inventory's answer stands."""

    async def hold(self, member: str, binding: str, attempt: int, components: Sequence[Component]) -> Holding:
        return Holding(Held.HELD)

    async def consume(self, member: str, binding: str, attempt: int) -> Holding:
        return Holding(Held.HELD)

    async def release(self, member: str, binding: str, attempt: int) -> bool:
        return True
