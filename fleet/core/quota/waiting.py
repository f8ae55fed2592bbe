"""How many jobs may wait below a node of the tree: of all users together, and of each.

An entry `fleet.io/max-waiting-jobs` stands beside the others, in a node's `max` and in its limits per user. It binds
when a job is made and never a decision: so the decider's tree leaves it out, and only admission reads it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_WAITING = "fleet.io/max-waiting-jobs"


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """The limits of one node: `all` its jobs together, `each` user's, and those of users in `by_name`, whose entry
    stands instead of `each`. None: no limit."""

    all: int | None = None
    each: int | None = None
    by_name: Mapping[str, int | None] = field(default_factory=dict)

    def of(self, user: str) -> int | None:
        return self.by_name.get(user, self.each) if user else None

    @property
    def least(self) -> int | None:
        """The smallest of all; None without any."""
        return min(
            (limit for limit in (self.all, self.each, *self.by_name.values()) if limit is not None), default=None
        )
