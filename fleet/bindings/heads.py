"""The units for which room is collected, as the status of the QueueUnit says, or of the binding outside quota: the
decider's memory between two plans.

Room is collected over many cycles. So its member, its start and its end must outlive each of them, and the leader. A
nomination is written only when it changes in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.core.model.unit import Nomination
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping

HEAD = "head"  # in status: {member, since, startsAt, certain, turn}


def head_of(unit: Body | None) -> Nomination | None:
    """The nomination of the unit; None for none, and for text that does not parse."""
    entry: Any = mapping((unit or {}).get("status")).get(HEAD)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("member"), str):
        return None
    since, at = seconds(entry.get("since") or ""), seconds(entry.get("startsAt") or "")
    if since is None or at is None:
        return None
    return Nomination(entry["member"], since, at, entry.get("certain") is True, seconds(entry.get("turn") or ""))


def nominate(unit: Body, nomination: Nomination | None) -> bool:
    """Write it into the unit, or take it out; False when it says so already."""
    status = unit.setdefault("status", {})
    if nomination is None:
        return status.pop(HEAD, None) is not None
    entry: dict[str, str | bool] = {
        "member": nomination.member,
        "since": rfc3339(nomination.since),
        "startsAt": rfc3339(nomination.at),
        "certain": nomination.certain,
    }
    if nomination.turn is not None:
        entry["turn"] = rfc3339(nomination.turn)
    if status.get(HEAD) == entry:
        return False
    status[HEAD] = entry
    return True
