"""How many jobs may wait below a node of the tree: of all users together, and of each.

An entry `fleet.io/max-waiting-jobs` stands beside the others, in a node's `max` and in its limits per user. It binds
when a job is made and never a decision: so the decider's tree leaves it out, and only admission reads it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_WAITING = "fleet.io/max-waiting-jobs"


@dataclass(frozen=True, slots=True)
class WaitingLimit:
    """One limit of a node, which stands in its field `word`: on all jobs that wait below it, or, where it is `by_user`,
    on those of each user. An entry of `by_name` stands instead of `most`. None: no limit."""

    word: str
    most: int | None
    by_user: bool = False
    by_name: Mapping[str, int | None] = field(default_factory=dict)

    def of(self, user: str) -> int | None:
        """The most jobs that may wait when this user makes one."""
        if not self.by_user:
            return self.most
        return self.by_name.get(user, self.most) if user else None

    @property
    def binds(self) -> bool:
        """Whether it limits anything."""
        return any(most is not None for most in (self.most, *self.by_name.values()))
