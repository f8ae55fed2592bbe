"""The answer of a search for the smallest changes that start a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fleet.core.foresee.change import Change, ChangeKind
from fleet.core.model.reason import Reason


class NoChangeCause(StrEnum):
    """Why there is no change of a kind."""

    NONE = "NoneStartsIt"
    SPENT = "NotFoundInTime"

    @property
    def text(self) -> str:
        """For people."""
        return _TEXTS[self]


_TEXTS = {
    NoChangeCause.NONE: "no single change of this kind starts it",
    NoChangeCause.SPENT: "not found within the decisions or the time that the search may take",
}


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """`starts`: the unit starts as things are, or its victims are leaving; no change is needed. Otherwise `reason` is
    the cause of its waiting. `changes`: the smallest change of each kind that has one, cheapest first. `without`: the
    kinds that were tried and have none. `then`: the next obstacle of the unit once it is let go, or its back-off is
    over. `decisions`: how many were asked for.

    `certain`: the changes after which the solver's plan starts the unit, too. After any other change the unit starts
    only likely. Where `starts`, None stands for no change.

    `preempts`: after such a change other units leave first, and the unit starts once they are gone; their number."""

    starts: bool
    reason: Reason | None
    changes: tuple[Change, ...] = ()
    without: tuple[tuple[ChangeKind, NoChangeCause], ...] = ()
    then: Reason | None = None
    decisions: int = 0
    certain: frozenset[Change | None] = frozenset()
    preempts: Mapping[Change, int] = field(default_factory=dict)
