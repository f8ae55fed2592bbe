"""Conditions on objects: one per type, whose transition time moves only when its status does."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping, rows

PODS_PENDING = "PodsPending"  # reason of RESIZED: the room is given, and not all pods have a node


def conditions_of(body: Body | None) -> list[dict[str, Any]]:
    """All of `status.conditions`."""
    return rows(mapping((body or {}).get("status")).get("conditions"))


def condition(body: Body, type_: str) -> dict[str, Any] | None:
    """The condition of this type, or None."""
    for entry in conditions_of(body):
        if entry.get("type") == type_:
            return dict(entry)
    return None


def is_true(body: Body, type_: str) -> bool:
    entry = condition(body, type_)
    return entry is not None and entry.get("status") == "True"


def set_condition(body: Body, type_: str, status: bool | str, reason: str, message: str, now: float) -> bool:
    """Put the condition into `body` in place; False when it said all this already."""
    text = status if isinstance(status, str) else str(status)
    conditions = body.setdefault("status", {}).setdefault("conditions", [])
    for entry in conditions:
        if entry.get("type") == type_:
            if (entry.get("status"), entry.get("reason"), entry.get("message", "")) == (text, reason, message):
                return False
            if entry.get("status") != text:
                entry["lastTransitionTime"] = rfc3339(now)
            entry.update(status=text, reason=reason, message=message)
            return True
    conditions.append(
        {"type": type_, "status": text, "reason": reason, "message": message, "lastTransitionTime": rfc3339(now)}
    )
    return True


def drop_condition(body: Body, type_: str) -> bool:
    """Take the condition out of `body` in place; False when it was not there."""
    conditions = conditions_of(body)
    kept = [entry for entry in conditions if entry.get("type") != type_]
    if len(kept) == len(conditions):
        return False
    body["status"]["conditions"] = kept
    return True
