"""Where a unit that is Reserved will go, as its QueueUnit's status says; from and to a value."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.bindings import binding as b
from fleet.bindings.unit import RESERVED, phase_of
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, whole

NOMINATION = "nomination"  # in status
CHECKS = "admissionChecks"  # in status
PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"  # states of a check


@dataclass(frozen=True, slots=True)
class ReservedPlacement:
    """The member of a Reserved unit, since when and until when it waits for that, and the inputs of the decision: the
    binding's `generation` and its `queue`."""

    member: str
    since: float
    until: float
    generation: int
    queue: str
    domain: str = ""  # the value of its topology label that it should lie in, if it has one
    share_until: float | None = None  # as of the placement that it will be
    replicas: tuple[tuple[str, int], ...] = ()  # by component, of an elastic job that starts at its smallest
    grows: bool = False  # its member has to add nodes for it


def reserved_placement_of(unit: Body | None) -> ReservedPlacement | None:
    """None for a unit that is not Reserved, and for one whose nomination does not parse."""
    entry = b.status_of(unit).get(NOMINATION)
    if phase_of(unit) != RESERVED or not isinstance(entry, dict) or not entry.get("member"):
        return None
    since, until = (seconds(entry.get(name) or "") for name in ("since", "until"))
    generation = entry.get("bindingGeneration")
    if since is None or until is None or not isinstance(generation, int):
        return None
    where, domain = (str(entry.get(name) or "") for name in ("queue", "domain"))
    share_until = seconds(entry.get("shareUntil") or "")
    replicas = tuple((str(name), whole(count)) for name, count in mapping(entry.get("replicas")).items())
    grows = entry.get("grows") is True
    return ReservedPlacement(
        str(entry["member"]), since, until, generation, where, domain, share_until, replicas, grows
    )


def to_body(placement: ReservedPlacement) -> Body:
    """As in the unit's status."""
    return {
        "member": placement.member,
        "since": rfc3339(placement.since),
        "until": rfc3339(placement.until),
        "bindingGeneration": placement.generation,
        "queue": placement.queue,
        **({"domain": placement.domain} if placement.domain else {}),
        **({"shareUntil": rfc3339(placement.share_until)} if placement.share_until is not None else {}),
        **({"replicas": dict(placement.replicas)} if placement.replicas else {}),
        **({"grows": True} if placement.grows else {}),
    }
