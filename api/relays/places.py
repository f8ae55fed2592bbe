"""The number of relays that one API process has open, in all and by user."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fleet.engine.status import StatusError


@dataclass(frozen=True, slots=True)
class Limits:
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


class Places:
    """`take` gives a place, which its `leave` gives back; StatusError 429 without one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_user: Counter[str] = Counter()
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    def take(self, user: str) -> Place:
        if self._by_user[user] >= self._limits.relays_by_user:
            most = self._limits.relays_by_user
            raise StatusError(429, "TooManyRequests", f"you have {most} relays to pods open, the most", retry_after_s=5)
        if self._taken >= self._limits.relays:
            raise StatusError(429, "TooManyRequests", "too many relays to pods are open at once", retry_after_s=5)
        self._by_user[user] += 1
        self._taken += 1
        return Place(self, user)

    def left(self, user: str) -> None:
        self._taken -= 1
        self._by_user[user] -= 1
        if not self._by_user[user]:
            del self._by_user[user]


class Place:
    """One relay; `leave` may be called more than once."""

    def __init__(self, places: Places, user: str) -> None:
        self._places: Places | None = places
        self._user = user

    def leave(self) -> None:
        if self._places is not None:
            self._places.left(self._user)
            self._places = None
