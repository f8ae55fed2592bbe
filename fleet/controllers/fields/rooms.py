"""How a member's room is held for a gang before the gang starts there, as its Cluster object says. Pure.

An administrator enables it for a member, by `spec.enableReservation` or an annotation. The member's version must let
the scheduler keep room for pods that wait at a gate. Holding the room is one of the admission checks of a Reserved
unit, which the hub itself answers.
"""

from __future__ import annotations

import re
from enum import StrEnum

from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.nomination import CHECKS
from fleet.model.untyped import rows, text
from fleet.ports import Body
from fleet.wellknown import ANNOTATION_RESERVATION

CONDITION = "ReservationEnabled"  # of a Cluster
CHECK = "fleet.io/room"  # the name of the check in `status.admissionChecks`
SINCE = (1, 28)  # Kubernetes: scheduling gates are on by default, and nominations of gated pods count


class Driver(StrEnum):
    """The objects that hold the room: pods that do nothing."""

    PLACEHOLDERS = "Placeholders"


def enabled(cluster: Body) -> bool:
    """Whether an administrator wants room held in this member."""
    said = b.annotation(cluster, ANNOTATION_RESERVATION)
    return said == "true" if said else b.spec_of(cluster).get("enableReservation") is True


def too_old(cluster: Body) -> str:
    """Why room cannot be held in this member; "" when it can, and while its version is not known."""
    version = text(b.status_of(cluster).get("kubernetesVersion"))
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= SINCE:
        return ""
    return f"runs Kubernetes {version}; room is held from v{SINCE[0]}.{SINCE[1]} on"


def tell(cluster: Body, now: float) -> bool:
    """The condition of a member that an administrator enabled it for, in place; False when it stands there already."""
    if not enabled(cluster):
        return drop_condition(cluster, CONDITION)
    trouble = too_old(cluster)
    reason = "VersionTooOld" if trouble else str(Driver.PLACEHOLDERS)
    message = trouble or "the room of a gang is held before it starts"
    return set_condition(cluster, CONDITION, not trouble, reason, message, now)


def driver_of(cluster: Body | None) -> Driver | None:
    """How room is held in this member before a gang starts; None: not at all."""
    if cluster is None or not enabled(cluster) or too_old(cluster):
        return None
    return Driver.PLACEHOLDERS


def asked(unit: Body) -> bool:
    """Whether the unit is Reserved and waits, or has waited, for its room to be held."""
    return any(entry.get("name") == CHECK for entry in rows(b.status_of(unit).get(CHECKS)))


def answered(unit: Body, state: str, message: str, at: str) -> bool:
    """Write the state of the check into the unit, in place; False when it stands there already."""
    for entry in rows(b.status_of(unit).get(CHECKS)):
        if entry.get("name") == CHECK and (entry.get("state"), entry.get("message")) != (state, message):
            entry.update(state=state, message=message, lastTransitionTime=at)
            return True
    return False
