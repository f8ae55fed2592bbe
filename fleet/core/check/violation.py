"""The rules that a plan may break, and the report of a broken rule.

Every rule is about safety: a plan that breaks one is not committed. Rules about the quality of a sound plan are
measured in fleet/core/check/quality.py, and not enforced.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """A rule of safety; `protects` is a sentence that is true of every plan that keeps the rule."""

    protects: str

    def __new__(cls, code: str, protects: str) -> Rule:
        rule = str.__new__(cls, code)
        rule._value_ = code
        rule.protects = protects
        return rule

    UNKNOWN_UNIT = "UnknownUnit", "A plan starts only units of the snapshot."
    UNKNOWN_MEMBER = "UnknownMember", "A unit starts only in a member of the snapshot."
    TWICE = "PlacedTwice", "A unit starts at most once, in one member."
    NOT_WAITING = "NotWaiting", "A unit that holds room already does not start a second time."
    HELD = "Held", "A unit that is held does not start."
    BACK_OFF = "BackOff", "A unit does not start before its back-off has ended."
    NO_LEAF = "NoQueue", "A unit starts only from a leaf of the quota tree, or outside quota."
    NOT_READY = "MemberNotReady", "Nothing new is sent to a member that is not ready."
    POLICY = "PolicyForbids", "A unit goes only where its policy and the member's taints allow it."
    MAX = "AboveMax", "No start raises usage above max or max-jobs, at any node from its leaf to the root."
    MIN = "AboveMin", "Work that may not be preempted stays within min, since no unit could take it back."
    LENT = "NotLent", "No start uses what another node does not lend."
    USER_MAX = "AboveMaxOfUser", "No start raises a user's usage above the user's cap."
    BLOCK_ORDER = "OutOfOrder", "No unit starts before a unit ahead of it that stops its queue."
    ROOM = "DoesNotFit", "Every gang that starts fits its one member whole, beside what is coming there."
    EVICTS_NOBODY = "EvictsNobody", "Only a unit that runs in the named member is evicted, and once."
    EVICTS_PROTECTED = "EvictsProtected", "A victim may be preempted, is old enough, and its member answers."
    EVICTS_HIGHER = "EvictsHigher", "A victim ranks below its preemptor in tier and priority, as the policy asks."
    CLAIM_UNSOUND = "ClaimUnsound", "A claim is for one waiting unit's whole room, where and when it may start."
    CLAIM_TOO_SMALL = "ClaimTooSmall", "A claim has room and quota once the victims are gone."
    CLAIM_TAKEN = "ClaimTaken", "No other unit starts in room or quota that is claimed."
    HEAD_UNSOUND = "HeadUnsound", "A head waits, may start, is its leaf's only one, and collects where it may go."
    SIZE_UNSOUND = (
        "SizeUnsound",
        "A unit has a size between its least and what it asks for, and changes it once settled.",
    )
    SIZE_TOO_LARGE = "SizeTooLarge", "A unit grows only into room and quota that are free beside all that starts."
    REASON_MISSING = "NoReason", "Every unit that waits on has one reason."
    REASON_EXTRA = "ReasonForNobody", "No other unit has a reason."


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the unit that breaks it ("" if none does), and the fault in a sentence. `bounds`: those that ended
    a search of this check for the packing of a refused gang; without them the gang might have been packed."""

    rule: Rule
    unit: str
    text: str
    bounds: frozenset[str] = frozenset()
