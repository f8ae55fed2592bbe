"""Every reason why a unit does not start, in one table: code, severity, numbers, and the one text that people see.

Codes are stable: they stand in conditions, events, the CLI and REST. A reason is data; nothing compares its text.
Amounts of resources are kept in base units beside the name of their resource, and become "1.5 CPU" or "64 GiB" only
in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum


class Code(StrEnum):
    QUOTA_EXHAUSTED = "QuotaExhausted"
    MAX_JOBS = "MaxJobsReached"
    MIN_EXHAUSTED = "GuaranteeExhausted"
    USER_LIMIT = "UserLimitReached"
    NO_LEAF = "NoQueue"
    BEHIND_IN_QUEUE = "BehindInQueue"
    NO_MEMBER_FITS = "NoMemberFits"
    NO_MEMBER_ALLOWED = "NoMemberAllowed"
    MEMBER_NOT_READY = "MemberNotReady"
    NO_MEMBERS = "NoMembers"
    BACK_OFF = "BackOff"
    HELD = "Held"
    SUSPENDED = "Suspended"
    NOT_ITS_TURN = "NotItsTurn"
    TOO_LARGE = "LargerThanEverything"
    BAD_UNIT = "BadUnit"
    LOST_TO_OTHERS = "RoomGoesToOthers"
    ROOM_CLAIMED = "RoomIsBeingFreed"
    COLLECTS = "RoomIsCollected"
    BEHIND_HEAD = "BehindHead"
    ADMISSION_CHECKS = "AdmissionChecks"
    MEMBER_UNREACHABLE = "MemberUnreachable"
    MEMBER_REFUSED = "MemberRefused"
    DECIDER_FAILED = "DeciderFailed"


class Severity(StrEnum):
    """`INFO`: goes away by itself. `WARNING`: somebody may want to act. `ERROR`: never starts unless somebody acts."""

    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table. `text` is a template over the numbers; `numbers` names those that it cannot do without."""

    severity: Severity
    text: str
    numbers: tuple[str, ...] = ()


_QUOTA = ("node", "resource", "request", "used", "max", "short")
_GAP = ("pods", "member", "short", "what")

TABLE: Mapping[Code, Entry] = {
    Code.QUOTA_EXHAUSTED: Entry(
        Severity.INFO,
        "quota {node} is exhausted: {resource} requested {request}, used {used}, max {max}; short by {short}."
        " It waits for running jobs of that quota to finish.",
        _QUOTA,
    ),
    Code.MAX_JOBS: Entry(
        Severity.INFO,
        "{node} already runs {used} of at most {max} jobs; starts when one finishes",
        ("node", "used", "max"),
    ),
    Code.MIN_EXHAUSTED: Entry(
        Severity.INFO,
        "min of {node} is used up: it may not be preempted, and asks for {resource} {request} beside {used} of {max};"
        " short by {short}. It waits for such jobs of that quota to finish.",
        _QUOTA,
    ),
    Code.USER_LIMIT: Entry(
        Severity.INFO,
        "user {user} has used up what one user may have in {node}: {resource} requested {request}, used {used},"
        " max {max}; short by {short}. It waits for running jobs of that user to finish.",
        (*_QUOTA, "user"),
    ),
    Code.NO_LEAF: Entry(
        Severity.ERROR, "{leaf} is no leaf of the quota tree: ask an administrator to add it, or use another", ("leaf",)
    ),
    Code.BEHIND_IN_QUEUE: Entry(
        Severity.INFO,
        "number {position} in queue {leaf}, which starts jobs strictly in order: waits for {head} ({why})",
        ("position", "leaf", "head", "why"),
    ),
    Code.NO_MEMBER_FITS: Entry(
        Severity.INFO,
        "no member fits the whole gang of {pods} pods; closest is {member}: short by {short} {what}",
        _GAP,
    ),
    Code.NO_MEMBER_ALLOWED: Entry(Severity.ERROR, "no member may take it: {why}", ("why",)),
    Code.MEMBER_NOT_READY: Entry(Severity.WARNING, "no member that may take it is ready: {why}", ("why",)),
    Code.NO_MEMBERS: Entry(Severity.WARNING, "no member cluster has joined yet; join one with `fleet join`"),
    Code.BACK_OFF: Entry(Severity.INFO, "backs off until {until} after attempt {attempts}", ("until", "attempts")),
    Code.HELD: Entry(Severity.INFO, "held by a person; starts after it is released"),
    Code.SUSPENDED: Entry(Severity.INFO, "suspended; starts after it is resumed"),
    Code.NOT_ITS_TURN: Entry(Severity.INFO, "its queue does not consider it yet: {why}", ("why",)),
    Code.TOO_LARGE: Entry(
        Severity.ERROR,
        "the gang of {pods} pods is larger than any member that may take it, even an empty one;"
        " closest is {member}: short by {short} {what}",
        _GAP,
    ),
    Code.BAD_UNIT: Entry(Severity.ERROR, "{field}: {problem}", ("field", "problem")),
    Code.LOST_TO_OTHERS: Entry(
        Severity.INFO,
        "the room it would fit into goes to jobs ahead of it; closest now is {member}: short by {short} {what}",
        ("member", "short", "what"),
    ),
    Code.ROOM_CLAIMED: Entry(
        Severity.INFO,
        "room in member {member} is kept for it until {until}; it starts when the jobs that leave are gone",
        ("member", "until"),
    ),
    Code.ADMISSION_CHECKS: Entry(
        Severity.INFO,
        "Reserved resources success, waiting admission checks to be ready",
        ("member", "checks", "until"),
    ),
    Code.COLLECTS: Entry(
        Severity.INFO,
        "has waited long, so room in member {member} is collected for it: {have} of its {pods} pods have room;"
        " it starts {when}",
        ("member", "have", "pods", "when"),
    ),
    Code.BEHIND_HEAD: Entry(
        Severity.INFO,
        "waits behind {head}, for which {what} collected; it starts when there is enough for both, or when its maximum"
        " execution time ends before {at}",
        ("head", "what", "at"),
    ),
    Code.MEMBER_UNREACHABLE: Entry(
        Severity.WARNING, "member {member} cannot be reached; the job stays where it is until it can", ("member",)
    ),
    Code.MEMBER_REFUSED: Entry(Severity.WARNING, "member {member} refused it: {message}", ("member", "message")),
    Code.DECIDER_FAILED: Entry(
        Severity.ERROR,
        "it is left out, since Fleet itself fails when it decides about it: {error}. This is a bug; it is tried again"
        " at {until}, or when it changes",
        ("error", "until"),
    ),
}  # fmt: skip

# texts for a case of a code that deserves its own sentence
_NEVER_IN_QUOTA = (
    "it is larger than quota {node} allows at all: {resource} requested {request}, max {max}."
    " It needs a smaller gang or a higher max."
)
_NEVER_IN_MIN = (
    "it may not be preempted, and is larger than min of {node}: {resource} requested {request}, min {max}."
    " It needs a higher min, or to be preemptible."
)
_NEVER_FOR_A_USER = (
    "it is larger than what user {user} may have in {node} at all: {resource} requested {request}, max {max}."
    " It needs a smaller gang or a higher limit per user."
)
_JOBS_OF_A_USER = "user {user} already runs {used} of at most {max} jobs in {node}; starts when one of them finishes"
_UNLENT = (
    "quota {node} is exhausted: {resource} requested {request}, used {used}, of which {kept} is not lent, max {max};"
    " short by {short}."
)
_BACK_OFF_AFTER = "backs off until {until} after attempt {attempts}: {why}"
_HELD_FOR = "held: {why}; starts after it is released"
_NO_JOBS_AT_ALL = "{node} may run no jobs at all: its max {resource} is 0"
_NO_TREE = "there is no quota tree, and the job asks for queue {leaf}: apply an ElasticQuotaTree"
_BEHIND_ONE_DUE = "waits behind {head}, for which {what} collected; it starts when there is enough for both"
_STILL_LEAVING = "{leaving} should have left by now, and is not gone"
_ALONE_IN_GAP = {
    Code.NO_MEMBER_FITS: "no member fits the one pod; closest is {member}: short by {short} {what}",
    Code.TOO_LARGE: "the pod is larger than any member that may take it, even an empty one;"
    " closest is {member}: short by {short} {what}",
}
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS)
_WAITS_AS = {"Guaranteed": " (waits within its guarantee)", "Borrowed": " (waits above its fair share)"}
_NAMING = ("head", "leaving")  # numbers that name other jobs
_AMOUNTS = ("request", "used", "max", "short", "have", "kept")
_BINARY = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def _decimal(amount: int, unit: int) -> str:
    """amount/unit with at most two decimals, never rounded to a whole number that it is not above."""
    whole, rest = divmod(abs(amount), unit)
    digits = f"{rest * 100 // unit:02d}".rstrip("0") if rest else ""
    return ("-" if amount < 0 else "") + str(whole) + ("." + digits if digits else "")


def human(amount: int, resource: str) -> str:
    """An amount in base units as people write it: human(1500, "cpu") == "1.5"; human(2**36, "memory") == "64 GiB"."""
    if resource == "cpu":
        return f"{amount}m" if 0 < abs(amount) < 10 else _decimal(amount, 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, unit in _BINARY:
            if abs(amount) >= unit:
                return f"{_decimal(amount, unit)} {suffix}"
        return f"{amount} B"
    return str(amount)


def instant(seconds: float) -> str:
    """Epoch seconds as RFC 3339 in UTC, or the number itself where no calendar reaches."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def named_to(namespace: str, job: str) -> str:
    """A job's name, namespace/name with more text behind it or none, as readers of `namespace` may know it."""
    name, space, more = job.partition(" ")
    return job if name.startswith(f"{namespace}/") else f"a job of another namespace{space}{more}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one unit waits. `numbers` holds what the text prints (node, resource, member, need, have, short, …)."""

    code: Code
    numbers: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        return TABLE[self.code].severity

    @property
    def text(self) -> str:
        """One sentence for people, with the numbers and what would help."""
        shown = dict.fromkeys(TABLE[self.code].numbers, "?") | {k: str(v) for k, v in self.numbers.items()}
        resource = str(self.numbers.get("resource", ""))
        for name in _AMOUNTS:
            amount = self.numbers.get(name)
            if isinstance(amount, int) and resource:
                shown[name] = human(amount, resource)
        text = self._template().format_map(shown)
        if "leaving" in shown:
            told = _STILL_LEAVING.format_map(shown)
            text += f" {told}." if text.endswith(".") else f"; {told}"
        return text + _WAITS_AS.get(str(self.numbers.get("tier")), "") if self.code in _OF_ROOM else text

    def told_to(self, namespace: str) -> Reason:
        """As readers of this namespace may know it: no job of another namespace is named."""
        numbers = {name: named_to(namespace, str(self.numbers[name])) for name in _NAMING if name in self.numbers}
        return Reason(self.code, {**self.numbers, **numbers}) if numbers else self

    def _template(self) -> str:
        if self.code is Code.HELD and self.numbers.get("why"):
            return _HELD_FOR
        if self.code is Code.BACK_OFF and self.numbers.get("why"):
            return _BACK_OFF_AFTER
        request, limit = self.numbers.get("request"), self.numbers.get("max")
        if self.code in (Code.QUOTA_EXHAUSTED, Code.MAX_JOBS) and isinstance(limit, int):
            if self.code is Code.MAX_JOBS and limit <= 0:
                return _NO_JOBS_AT_ALL
            if self.code is Code.QUOTA_EXHAUSTED and isinstance(request, int) and request > limit:
                return _NEVER_IN_QUOTA
        if self.code is Code.MIN_EXHAUSTED and isinstance(request, int) and isinstance(limit, int) and request > limit:
            return _NEVER_IN_MIN
        if self.code is Code.USER_LIMIT and isinstance(request, int) and isinstance(limit, int) and request > limit:
            return _NEVER_FOR_A_USER
        if self.code is Code.USER_LIMIT and self.numbers.get("resource") == "kube-queue/max-jobs":
            return _JOBS_OF_A_USER
        if self.code is Code.QUOTA_EXHAUSTED and self.numbers.get("kept"):
            return _UNLENT
        if self.code is Code.NO_LEAF and self.numbers.get("tree") == "none":
            return _NO_TREE
        if self.code is Code.BEHIND_HEAD and "at" not in self.numbers:
            return _BEHIND_ONE_DUE
        if self.code in _ALONE_IN_GAP and self.numbers.get("pods") == 1:
            return _ALONE_IN_GAP[self.code]
        return TABLE[self.code].text
