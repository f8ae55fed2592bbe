"""Every reason why a unit does not start, in one table: code, severity, numbers, and the one text that people see.

Codes are stable: they stand in conditions, events, the CLI and REST. A reason is data; nothing compares its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    QUOTA_EXHAUSTED = "QuotaExhausted"
    MAX_JOBS = "MaxJobsReached"
    NO_LEAF = "NoQueue"
    BEHIND_IN_QUEUE = "BehindInQueue"
    NO_MEMBER_FITS = "NoMemberFits"
    NO_MEMBER_ALLOWED = "NoMemberAllowed"
    MEMBER_NOT_READY = "MemberNotReady"
    NO_MEMBERS = "NoMembers"
    BACK_OFF = "BackOff"
    HELD = "Held"
    SUSPENDED = "Suspended"
    TOO_LARGE = "LargerThanEverything"
    BAD_UNIT = "BadUnit"
    LOST_TO_OTHERS = "RoomGoesToOthers"
    MEMBER_UNREACHABLE = "MemberUnreachable"
    MEMBER_REFUSED = "MemberRefused"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one unit waits. `numbers` holds what the text prints (node, resource, member, need, have, short, …)."""

    code: Code
    numbers: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """One sentence for people, with the numbers and what would help."""
        raise NotImplementedError
