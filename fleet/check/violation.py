"""The rules that a plan may break, and how a broken one is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    UNKNOWN_UNIT = "UnknownUnit"
    UNKNOWN_MEMBER = "UnknownMember"
    TWICE = "PlacedTwice"
    NOT_WAITING = "NotWaiting"
    HELD = "Held"
    BACK_OFF = "BackOff"
    NO_LEAF = "NoQueue"
    NOT_READY = "MemberNotReady"
    POLICY = "PolicyForbids"
    MAX = "AboveMax"
    MIN = "AboveMin"
    LENT = "NotLent"
    USER_MAX = "AboveMaxOfUser"
    BLOCK_ORDER = "OutOfOrder"
    ROOM = "DoesNotFit"
    EVICTS_NOBODY = "EvictsNobody"
    EVICTS_PROTECTED = "EvictsProtected"
    EVICTS_HIGHER = "EvictsHigher"
    EVICTS_NEEDLESSLY = "EvictsNeedlessly"
    CLAIM_UNSOUND = "ClaimUnsound"
    CLAIM_TOO_SMALL = "ClaimTooSmall"
    CLAIM_TAKEN = "ClaimTaken"
    HEAD_UNSOUND = "HeadUnsound"
    HEAD_UNENTITLED = "HeadUnentitled"
    HEAD_DROPPED = "HeadDropped"
    HEAD_TAKEN = "HeadRoomTaken"
    HEAD_QUOTA = "HeadQuotaTaken"
    REASON_MISSING = "NoReason"
    REASON_EXTRA = "ReasonForNobody"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: the unit that breaks it ("" if none does), and what is wrong in a sentence."""

    rule: Rule
    unit: str
    text: str
