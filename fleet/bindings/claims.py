"""The claim of a waiting unit, as its QueueUnit's status says: the decider's memory between two plans.

Nothing else remembers a claim, so a leader that takes over honours the claims that the one before wrote. A claim goes
with the placement that uses it, with a claim that replaces it, and when its time is over.
"""

from __future__ import annotations

from typing import Any

from fleet.core.model.plan import RoomClaim
from fleet.core.model.unit import Claim
from fleet.values.ports import Body
from fleet.values.quantity import texts_of
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping

CLAIM = "claim"  # in status: {member, until, room}


def claim_of(unit: Body | None) -> Claim | None:
    """The claim of the unit; None for none, and for text that does not parse."""
    said: Any = mapping((unit or {}).get("status")).get(CLAIM)
    if not isinstance(said, dict):
        return None
    until = seconds(said.get("until") or "")
    return Claim(str(said["member"]), until) if until is not None and said.get("member") else None


def claim(unit: Body, room: RoomClaim, now: float) -> None:
    """Write it into the unit, in place of another."""
    status = unit.setdefault("status", {})
    status[CLAIM] = {"member": room.member, "until": rfc3339(room.until), "room": texts_of(room.room)}
    status["lastUpdateTime"] = rfc3339(now)


def release(unit: Body) -> bool:
    """Take it out of the unit, in place; False when there was none."""
    return (unit.get("status") or {}).pop(CLAIM, None) is not None
