"""The words in which a what-if is answered: of the standing of a job before and after some edits."""

from __future__ import annotations

from enum import StrEnum

HORIZON_S = 30 * 86_400.0  # so far the queues are run forward


class UnitState(StrEnum):
    ABSENT = "Absent"
    RUNS = "Runs"
    STARTS = "Starts"
    LEAVES = "Leaves"
    WAITS = "Waits"
    UNREACHABLE = "Unreachable"  # in a member that does not answer


class Verdict(StrEnum):
    """The outcome of the edits for a unit."""

    STARTS = "starts"
    MOVES = "moves"
    STOPS = "stops"
    LEAVES = "leaves"
    STAYS = "stays"
    UNREACHABLE = "unreachable"
    WAITS = "waits"
    SOONER = "sooner"
    LATER = "later"
    REMOVED = "removed"
