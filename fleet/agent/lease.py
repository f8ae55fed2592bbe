"""The Lease of a member's agent: which API process holds the tunnel, and where other processes reach that one.

`leaseTransitions` counts the connections of the agent, and fences them: a process that finds a higher number than its
own has been replaced. A Lease without a holder says since when the agent is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.values.ports import Body, Key
from fleet.values.times import rfc3339, rfc3339_micro, seconds
from fleet.values.untyped import mapping, text
from fleet.wellknown import AGENT, ANNOTATION_TUNNEL, SYSTEM_NAMESPACE

GROUP, RESOURCE = "coordination.k8s.io", "leases"
RENEW_S = 10.0
REPLACED = 4001  # code of a close: a newer connection of the same agent serves
LATE_S = 30.0  # a Lease that is older: the process that held the tunnel is gone, or cannot write


@dataclass(frozen=True, slots=True)
class TunnelLease:
    """The content of such a Lease. `holder` "": no process holds the tunnel."""

    holder: str
    address: str
    transitions: int
    renewed: float | None


def key_of(name: str) -> Key:
    """The Lease of a member's agent."""
    return Key(GROUP, RESOURCE, SYSTEM_NAMESPACE, f"{AGENT}-{name}")


def read(lease: Body | None) -> TunnelLease | None:
    if lease is None:
        return None
    spec = mapping(lease.get("spec"))
    address = text(mapping(mapping(lease.get("metadata")).get("annotations")).get(ANNOTATION_TUNNEL))
    transitions = spec.get("leaseTransitions")
    return TunnelLease(
        text(spec.get("holderIdentity")),
        address,
        transitions if isinstance(transitions, int) else 0,
        seconds(text(spec.get("renewTime"))),
    )


def fresh(name: str) -> Body:
    """A Lease that no process holds yet."""
    key = key_of(name)
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lease",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"leaseTransitions": 0},
    }


def take_lease(lease: Body, holder: str, address: str, now: float) -> int:
    """Make `holder` the newest one, in place; its number."""
    spec = lease.setdefault("spec", {})
    before = read(lease)
    number = (before.transitions if before is not None else 0) + 1
    spec.update(
        holderIdentity=holder,
        leaseTransitions=number,
        acquireTime=rfc3339_micro(now),
        renewTime=rfc3339_micro(now),
        leaseDurationSeconds=int(LATE_S),
    )
    lease["metadata"].setdefault("annotations", {})[ANNOTATION_TUNNEL] = address
    return number


def renewed(lease: Body, number: int, now: float, *, holds: bool) -> Body | None:
    """The Lease with a new time, without its holder unless it `holds` the tunnel still; None for one that a newer
    connection has taken."""
    found = read(lease)
    if found is None or found.transitions != number:
        return None
    spec: dict[str, Any] = lease["spec"]
    spec["renewTime"] = rfc3339_micro(now)
    if not holds:
        spec["holderIdentity"] = ""
    return lease


def absence(holding: TunnelLease | None) -> str:
    """The sentence about a member whose agent cannot be reached."""
    if holding is None or holding.renewed is None:
        return "its agent is not connected (it never was)"
    return f"its agent is not connected (since {rfc3339(holding.renewed)})"
