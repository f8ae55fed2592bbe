"""How a member's room is held for a gang before the gang starts there, as its Cluster object says. Pure.

An administrator enables it for a member, by `spec.enableReservation` or an annotation. The member's version must let
the scheduler keep room for pods that wait at a gate. Holding the room is one of the admission checks of a Reserved
unit, which the hub itself answers.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.nomination import CHECKS
from fleet.bindings.oldmembers import too_old
from fleet.kinds.gangs import scheduler_of
from fleet.values.ports import Body
from fleet.values.untyped import rows, text
from fleet.wellknown import ANNOTATION_GANG, ANNOTATION_RESERVATION

CONDITION = "ReservationEnabled"  # of a Cluster
CHECK = "fleet.io/room"  # the name of the check in `status.admissionChecks`
RESERVATION = "scheduling.koordinator.sh/Reservation"
LABEL_MAX = 63


class Driver(StrEnum):
    """The objects that hold the room: pods that do nothing, or Reservations of Koordinator's scheduler."""

    PLACEHOLDERS = "Placeholders"
    KOORDINATOR = "Koordinator"


def enabled(cluster: Body) -> bool:
    """Whether an administrator wants room held in this member."""
    said = b.annotation(cluster, ANNOTATION_RESERVATION)
    return said == "true" if said else b.spec_of(cluster).get("enableReservation") is True


def tell(cluster: Body, now: float) -> bool:
    """The condition of a member that an administrator enabled it for, in place; False when it stands there already."""
    if not enabled(cluster):
        return drop_condition(cluster, CONDITION)
    trouble = too_old(cluster)
    reason = "VersionTooOld" if trouble else str(driver_of(cluster))
    message = trouble or "the room of a gang is held before it starts"
    return set_condition(cluster, CONDITION, not trouble, reason, message, now)


def driver_of(cluster: Body | None) -> Driver | None:
    """How room is held in this member before a gang starts; None: not at all."""
    if cluster is None or not enabled(cluster) or too_old(cluster):
        return None
    return Driver.KOORDINATOR if RESERVATION in _served(cluster) else Driver.PLACEHOLDERS


def gang_scheduler_of(cluster: Body | None, room: Driver | None) -> str:
    """The gang scheduler that a gang is marked for in this member, as its Cluster says or its API shows; "" for none.
    Pods that get the places of placeholders are no gang: a gang waits for all its pods at once."""
    if cluster is None or room is Driver.PLACEHOLDERS:
        return ""
    return scheduler_of(b.annotation(cluster, ANNOTATION_GANG), _served(cluster))


def gang_name(binding: Body) -> str:
    """The name of the gang in its member, which fits into a label."""
    name: str = binding["metadata"]["name"]
    if len(name) <= LABEL_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LABEL_MAX - 9].rstrip('.-')}-{digest}"


def _served(cluster: Body) -> frozenset[str]:
    """The kinds that it serves, as group/Kind."""
    return frozenset(
        f"{text(entry.get('groupVersion')).rpartition('/')[0]}/{text(resource.get('kind'))}"
        for entry in rows(b.status_of(cluster).get("apiEnablements"))
        for resource in rows(entry.get("resources"))
    )


def asks(unit: Body) -> bool:
    """Whether the unit is Reserved and waits, or has waited, for its room to be held."""
    return any(entry.get("name") == CHECK for entry in rows(b.status_of(unit).get(CHECKS)))


def answer(unit: Body, state: str, message: str, at: str) -> bool:
    """Write the state of the check into the unit, in place; False when it stands there already."""
    for entry in rows(b.status_of(unit).get(CHECKS)):
        if entry.get("name") == CHECK and (entry.get("state"), entry.get("message")) != (state, message):
            entry.update(state=state, message=message, lastTransitionTime=at)
            return True
    return False
