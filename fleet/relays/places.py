"""The limits of relays."""

from __future__ import annotations

from dataclasses import dataclass

from api.wire.places import Places


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Times are in seconds."""

    relays: int = 512
    """At once, of all users."""
    relays_by_user: int = 64
    """At once, of one user."""
    idle_s: float = 4 * 3600.0
    """A relay that carries nothing for so long ends, as a kubelet ends it."""
    stalled_s: float = 30.0
    """A log that is not followed ends when the member sends nothing for so long."""
    look_s: float = 5.0
    """Between two looks at the job and the member of a relay."""


def places_of(limits: RelayLimits) -> Places:
    return Places(limits.relays, limits.relays_by_user, "relays to pods")
