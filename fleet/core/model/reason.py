"""Every reason why a unit does not start, in one table: code, severity, numbers, and the one text that people see.

Codes are stable, since conditions, events, the CLI and REST carry them. A reason is data; nothing compares its text.
Amounts of resources are kept in base units beside the name of their resource, and become "1.5 CPU" or "64 GiB" only in
the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fleet.core.model.tier import Tier


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
    AFTER = "WaitsForJobs"
    NEVER_AFTER = "DependencyNeverSatisfied"
    TOO_LARGE = "LargerThanEverything"
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    NO_NODE_MATCHES = "NoNodeMatches"
    UNKNOWN_RESOURCE = "UnknownResource"
    BAD_UNIT = "BadUnit"
    LOST_TO_OTHERS = "RoomGoesToOthers"
    ROOM_CLAIMED = "RoomIsBeingFreed"
    COLLECTS = "RoomIsCollected"
    BEHIND_HEAD = "BehindHead"
    ADMISSION_CHECKS = "AdmissionChecks"
    MEMBER_UNREACHABLE = "MemberUnreachable"
    MEMBER_REFUSED = "MemberRefused"
    KIND_NOT_SERVED = "KindNotServed"
    NO_CONTROLLER = "NoController"
    MEMBER_QUOTA = "MemberQuotaExceeded"
    ADMISSION_DENIED = "AdmissionDenied"
    MEMBER_FORBIDS = "MemberForbids"
    NAME_TAKEN = "NameTaken"
    INVALID_THERE = "InvalidInMember"
    MEMBER_TOO_OLD = "MemberTooOld"
    MEMBER_FAILS = "MemberFails"
    OVERRIDE_FAILED = "OverrideFailed"
    DATA_MISSING = "DataMissing"
    DECIDER_FAILED = "DeciderFailed"
    TOO_COSTLY = "TooCostly"
    PODS_LEAVE = "PodsLeave"


class Severity(StrEnum):
    """`INFO`: goes away by itself. `WARNING`: a person may want to act. `ERROR`: never starts unless a person acts."""

    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table. `text` is a template over the numbers; `numbers` names those that it cannot do without.

    `never`: of a limit of the quota tree, the text where no end of another job helps. `of_jobs`: the limit is on a
    number of jobs."""

    severity: Severity
    text: str
    numbers: tuple[str, ...] = ()
    never: str = ""
    of_jobs: bool = False


_QUOTA = ("node", "resource", "request", "used", "max", "short")
_GAP = ("pods", "member", "short", "what")
_NODES = ("nodes", "causes")
_THERE = ("member", "message")
_CLOSEST = "Closest is {member}: {short} pods find no node with {what}"
_HAVE_ROOM = ": {have} of its {pods} pods have room"  # of a job of one pod: none has
_NONE_AVAILABLE = "0/{nodes} nodes are available: {causes}"

TABLE: Mapping[Code, Entry] = {
    Code.QUOTA_EXHAUSTED: Entry(
        Severity.INFO,
        "insufficient unused quota for {resource} in {node}: requested {request}, used {used}, max {max};"
        " {short} more needed. Waits for jobs there to finish.",
        _QUOTA,
        never="it is larger than quota {node} allows at all: {resource} requested {request}, max {max}."
        " It needs a smaller gang or a higher max.",
    ),
    Code.MAX_JOBS: Entry(
        Severity.INFO,
        "{node} already runs {used} of at most {max} jobs; starts when one finishes",
        ("node", "used", "max"),
        never="{node} may run no jobs at all: its max {resource} is 0",
        of_jobs=True,
    ),
    Code.MIN_EXHAUSTED: Entry(
        Severity.INFO,
        "insufficient unused min for {resource} in {node}, and a job that may not be preempted never borrows:"
        " requested {request}, used {used}, min {max}; {short} more needed. Waits for such jobs there to finish.",
        _QUOTA,
        never="it may not be preempted, and is larger than min of {node}: {resource} requested {request}, min {max}."
        " It needs a higher min, or to be preemptible.",
    ),
    Code.USER_LIMIT: Entry(
        Severity.INFO,
        "user {user} has reached the limit per user for {resource} in {node}: requested {request}, used {used},"
        " max {max}; {short} more needed. Waits for jobs of this user to finish.",
        (*_QUOTA, "user"),
        never="it is larger than what user {user} may have in {node} at all: {resource} requested {request}, max {max}."
        " It needs a smaller gang or a higher limit per user.",
    ),
    Code.NO_LEAF: Entry(
        Severity.ERROR, "{leaf} is no leaf of the quota tree: ask an administrator to add it, or use another", ("leaf",)
    ),
    Code.BEHIND_IN_QUEUE: Entry(
        Severity.INFO,
        "position {position} in queue {leaf}, which starts jobs in strict order: waits for {head} ({why})",
        ("position", "leaf", "head", "why"),
    ),
    Code.NO_MEMBER_FITS: Entry(
        Severity.INFO,
        f"no member has room for all {{pods}} pods at once. {_CLOSEST}",
        _GAP,
    ),
    Code.NO_MEMBER_ALLOWED: Entry(Severity.ERROR, "0/{members} members are available: {why}", ("members", "why")),
    Code.MEMBER_NOT_READY: Entry(Severity.WARNING, "no member that may run it is ready: {why}", ("why",)),
    Code.NO_MEMBERS: Entry(Severity.WARNING, "no member has joined yet; join one with `fleet join`"),
    Code.BACK_OFF: Entry(Severity.INFO, "backs off until {until} after attempt {attempts}", ("until", "attempts")),
    Code.HELD: Entry(Severity.INFO, "held by a person; starts after it is released"),
    Code.PODS_LEAVE: Entry(
        Severity.INFO, "starts in member {member} once elastic jobs have given up pods for it", ("member",)
    ),
    Code.SUSPENDED: Entry(Severity.INFO, "suspended; starts after it is resumed"),
    Code.NOT_ITS_TURN: Entry(Severity.INFO, "{why}", ("why",)),
    Code.AFTER: Entry(Severity.INFO, "starts after {jobs}", ("jobs",)),
    Code.NEVER_AFTER: Entry(
        Severity.ERROR, "never starts: {why}; cancel it, or change its annotation fleet.io/after", ("why",)
    ),
    Code.TOO_LARGE: Entry(
        Severity.ERROR,
        f"no member has room for all {{pods}} pods at once, even when empty. {_CLOSEST}",
        _GAP,
    ),
    Code.LARGER_THAN_ANY_NODE: Entry(
        Severity.ERROR,
        f"{_NONE_AVAILABLE}; the largest node has {{largest}} {{resource}}, a pod asks for {{request}}",
        (*_NODES, "resource", "largest", "request"),
    ),
    Code.NO_NODE_MATCHES: Entry(Severity.ERROR, _NONE_AVAILABLE, _NODES),
    Code.UNKNOWN_RESOURCE: Entry(
        Severity.ERROR,
        f"{_NONE_AVAILABLE}; no node has {{resource}}, did you mean {{near}}?",
        (*_NODES, "resource", "near"),
    ),
    Code.BAD_UNIT: Entry(Severity.ERROR, "{field}: {problem}", ("field", "problem")),
    Code.LOST_TO_OTHERS: Entry(
        Severity.INFO,
        f"the room for it in {{where}} goes to {{taker}}. {_CLOSEST}",
        (*_GAP, "where", "taker"),
    ),
    Code.ROOM_CLAIMED: Entry(
        Severity.INFO,
        "preempts jobs in member {member}, where room is reserved for it until {until}; starts when they are gone",
        ("member", "until"),
    ),
    Code.ADMISSION_CHECKS: Entry(
        Severity.INFO,
        "Reserved resources success, waiting admission checks to be ready",
        ("member", "checks", "until"),
    ),
    Code.COLLECTS: Entry(
        Severity.INFO,
        "has waited long, so room in member {member} is reserved for it as it becomes free"
        f"{_HAVE_ROOM}; it starts {{when}}",
        ("member", "have", "pods", "when"),
    ),
    Code.BEHIND_HEAD: Entry(
        Severity.INFO,
        "waits behind {head}, for which {what} reserved; it starts when there is enough for both, or when its maximum"
        " execution time ends before {at}",
        ("head", "what", "at"),
    ),
    Code.MEMBER_UNREACHABLE: Entry(
        Severity.WARNING, "member {member} cannot be reached; the job stays where it is until it can", ("member",)
    ),
    Code.MEMBER_REFUSED: Entry(Severity.WARNING, "member {member} refused it: {message}", ("member", "message")),
    Code.KIND_NOT_SERVED: Entry(
        Severity.WARNING, "its kind is not there: {message}; install its CRD in the member", _THERE
    ),
    Code.NO_CONTROLLER: Entry(
        Severity.WARNING, "member {member} took it, and no controller there acts on it: {message}", _THERE
    ),
    Code.MEMBER_QUOTA: Entry(Severity.WARNING, "a quota of member {member} has no room for it: {message}", _THERE),
    Code.ADMISSION_DENIED: Entry(Severity.WARNING, "admission of member {member} denied it: {message}", _THERE),
    Code.MEMBER_FORBIDS: Entry(
        Severity.WARNING, "member {member} does not give the hub's account the right to it: {message}", _THERE
    ),
    Code.NAME_TAKEN: Entry(Severity.WARNING, "its name is taken in member {member}: {message}", _THERE),
    Code.INVALID_THERE: Entry(Severity.WARNING, "member {member} finds it invalid: {message}", _THERE),
    Code.MEMBER_TOO_OLD: Entry(
        Severity.WARNING, "member {member} is too old, it knows no server-side apply: {message}", _THERE
    ),
    Code.MEMBER_FAILS: Entry(
        Severity.WARNING, "member {member} answers, and fails when it is sent: {message}; the hub tries again", _THERE
    ),
    Code.OVERRIDE_FAILED: Entry(
        Severity.WARNING,
        "cannot be sent to member {member}: {message}; mend or delete that policy",
        ("member", "message"),
    ),
    Code.DATA_MISSING: Entry(
        Severity.WARNING,
        "member {member} has no PersistentVolumeClaim {message}, which the pods of the job name, and the hub sends"
        " none; create it in the member, or on the hub under a policy with propagateDeps",
        ("member", "message"),
    ),
    Code.DECIDER_FAILED: Entry(
        Severity.ERROR,
        "it is left out, since Fleet itself fails when it decides about it: {error}. This is a bug; it is tried again"
        " at {until}, or when it changes",
        ("error", "until"),
    ),
    Code.TOO_COSTLY: Entry(
        Severity.WARNING,
        "it is left out, so that other jobs start: the search for a place for its {kinds} kinds of pods took {steps}"
        " steps, where one decision has {most}. It is tried again within ten minutes, or when it changes; pods alike,"
        " or of sizes that divide each other, need no search",
        ("kinds", "steps", "most"),
    ),
}

OF_QUOTA = tuple(code for code, entry in TABLE.items() if entry.never)  # a limit of the tree

# texts for a case of a code that deserves its own sentence
_JOBS_OF_A_USER = "user {user} already runs {used} of at most {max} jobs in {node}; starts when one of them finishes"
_UNLENT = ", {kept} guaranteed to others and not lent"
_RESERVED = ", reserved {reserved} for {preemptor}"
_RESERVED_JOBS = ", and {reserved} reserved for {preemptor}; waits for them to finish"
_BACK_OFF_AFTER = "backs off until {until} after attempt {attempts}: {why}"
_NODES_COME = "Reserved resources success, waiting for nodes that the autoscaler of member {member} has to add"
_HELD_FOR = "held: {why}; starts after it is released"
_HELD_ANYWAY = "held: {why}"  # a release changes nothing
LEAST = "least"  # a number of any reason: the replicas that are enough for an elastic job to start
NAMESPACE = "namespace "  # the name of the leaf that a namespace should have, and has not
_NAMESPACE_WITHOUT_LEAF = "no leaf of the quota tree has {leaf}: ask an administrator to add it to one"
_NO_TREE = "there is no quota tree: apply an ElasticQuotaTree"
_BEHIND_ONE_DUE = "waits behind {head}, for which {what} reserved; it starts when there is enough for both"
_STILL_LEAVING = "{leaving} should have left by now, and is not gone"
_ELASTIC = "{least} are enough to start"  # of an elastic job: 2 of 8 worker
_UNSCHEDULABLE = "; {unschedulable} node(s) there were unschedulable or not ready"
_NOT_BESIDE_OTHERS = "{member} has room for it, but not on the same nodes as the jobs that start there now"
_FOR_SOME = "0/{nodes} nodes are available for {pods} of its {of} pods: {causes}"
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS)
_OF_NODES = (Code.LARGER_THAN_ANY_NODE, Code.NO_NODE_MATCHES, Code.UNKNOWN_RESOURCE)
_WAITS_AS: Mapping[Tier | None, str] = {
    Tier.GUARANTEED: " (waits within its guarantee)",
    Tier.CROSSING: " (waits: larger than what is left of its fair share)",
    Tier.BORROWED: " (waits above its fair share)",
}
# the number "why" of a job behind the first of its queue: the code of that one's reason, in words
_FIRST_WAITS: Mapping[str, str] = {
    Code.QUOTA_EXHAUSTED: "quota is short",
    Code.MAX_JOBS: "as many jobs run as may",
    Code.MIN_EXHAUSTED: "min is used up",
    Code.USER_LIMIT: "the limit of its user is reached",
    Code.NO_MEMBER_FITS: "no member has room",
    Code.LOST_TO_OTHERS: "the room goes to others",
    Code.TOO_LARGE: "larger than any member",
    Code.LARGER_THAN_ANY_NODE: "larger than any node",
    Code.NO_NODE_MATCHES: "no node takes it",
    Code.UNKNOWN_RESOURCE: "no node has what it asks for",
    Code.NO_MEMBER_ALLOWED: "no member takes it",
    Code.MEMBER_NOT_READY: "no member is ready",
    Code.NO_MEMBERS: "no member has joined",
    Code.ROOM_CLAIMED: "room is being freed for it",
    Code.COLLECTS: "room is reserved for it",
    Code.BEHIND_HEAD: "another job has reserved what it needs",
    Code.PODS_LEAVE: "pods leave for it",
}
_NAMING = ("head", "leaving", "preemptor", "taker")  # numbers that name other jobs
_AMOUNTS = ("request", "used", "max", "short", "have", "kept", "reserved", "largest", "fleet")
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


def named_to(namespace: str, job: str) -> str:
    """A job's name, namespace/name with more text behind it or none, as readers of `namespace` may know it."""
    name, space, more = job.partition(" ")
    return job if name.startswith(f"{namespace}/") else f"a job of another namespace{space}{more}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one unit waits. `numbers` holds the values of the text (node, resource, member, need, have, short, …).
    `tier`: that of the unit, where it is in quota and may start one day."""

    code: Code
    numbers: Mapping[str, str | int] = field(default_factory=dict)
    tier: Tier | None = None

    @property
    def severity(self) -> Severity:
        return TABLE[self.code].severity

    @property
    def text(self) -> str:
        """One sentence for people, with the numbers and a way to help."""
        values = dict.fromkeys(TABLE[self.code].numbers, "?") | {k: str(v) for k, v in self.numbers.items()}
        resource = str(self.numbers.get("resource", ""))
        for name in _AMOUNTS:
            amount = self.numbers.get(name)
            if isinstance(amount, int) and resource:
                values[name] = human(amount, resource)
        if self.code is Code.BEHIND_IN_QUEUE:
            values["why"] = _FIRST_WAITS.get(values["why"], values["why"])
        text = self._template().format_map(values)
        if "leaving" in values:
            told = _STILL_LEAVING.format_map(values)
            text += f" {told}." if text.endswith(".") else f"; {told}"
        if LEAST in values:
            told = _ELASTIC.format_map(values)
            text += f" {told}." if text.endswith(".") else f"; {told}"
        return text + _WAITS_AS.get(self.tier, "") if self.code in _OF_ROOM else text

    @property
    def figures(self) -> dict[str, str | int]:
        """The numbers as they are stored and sent, with the word of the tier among them."""
        return {**self.numbers, "tier": self.tier.word} if self.tier is not None else dict(self.numbers)

    @property
    def named_jobs(self) -> dict[str, str]:
        """The jobs that the numbers name, as namespace/name, by number."""
        return {name: str(self.numbers[name]).partition(" ")[0] for name in _NAMING if self.numbers.get(name)}

    @property
    def beyond_limit(self) -> bool:
        """Whether the request is larger than a limit of the tree, so that no end of another job helps."""
        request, limit = self.numbers.get("request"), self.numbers.get("max")
        if self.code not in OF_QUOTA or TABLE[self.code].of_jobs or "fleet" in self.numbers:
            return False
        return isinstance(request, int) and isinstance(limit, int) and request > limit

    def told_to(self, namespace: str) -> Reason:
        """As readers of this namespace may know it: no job of another namespace is named."""
        numbers = {name: named_to(namespace, str(self.numbers[name])) for name in _NAMING if name in self.numbers}
        return replace(self, numbers={**self.numbers, **numbers}) if numbers else self

    def _template(self) -> str:
        if self.code is Code.HELD and self.numbers.get("why"):
            return _HELD_ANYWAY if self.numbers.get("release") == "no" else _HELD_FOR
        if self.code is Code.ADMISSION_CHECKS and self.numbers.get("grows"):
            return _NODES_COME
        if self.code is Code.BACK_OFF and self.numbers.get("why"):
            return _BACK_OFF_AFTER
        if self.code is Code.NO_LEAF and self.numbers.get("tree") == "none":
            return _NO_TREE
        if self.code is Code.NO_LEAF and str(self.numbers.get("leaf")).startswith(NAMESPACE):
            return _NAMESPACE_WITHOUT_LEAF
        if self.code in (Code.BEHIND_HEAD, Code.COLLECTS):
            return self._of_head()
        if self.code in OF_QUOTA:
            return self._of_quota()
        if self.code in _OF_NODES or (self.code is Code.NO_MEMBER_FITS and "causes" in self.numbers):
            return self._of_nodes()
        if self.code in _OF_ROOM or self.code is Code.TOO_LARGE:
            return self._of_room()
        return TABLE[self.code].text

    def _of_quota(self) -> str:
        limit, entry = self.numbers.get("max"), TABLE[self.code]
        text, jobs = entry.text, entry.of_jobs
        if self.beyond_limit or (jobs and isinstance(limit, int) and limit <= 0):
            return entry.never
        if self.code is Code.USER_LIMIT and self.numbers.get("resource") == "kube-queue/max-jobs":
            text, jobs = _JOBS_OF_A_USER, True
        if limit == 1 and jobs:
            text = text.replace("{max} jobs", "{max} job")
        if self.numbers.get("kept"):
            text = text.replace("used {used}", "used {used}" + _UNLENT)
        if "fleet" in self.numbers:
            text = text.replace("max {max}", "the fleet has {fleet}")
        if self.numbers.get("reserved") and jobs:
            text = text.partition(";")[0] + _RESERVED_JOBS
        elif self.numbers.get("reserved"):
            text = text.replace("used {used}", "used {used}" + _RESERVED)
        return text

    def _of_head(self) -> str:
        if self.code is Code.BEHIND_HEAD:
            return TABLE[self.code].text if "at" in self.numbers else _BEHIND_ONE_DUE
        return TABLE[self.code].text.replace(_HAVE_ROOM, "" if self.numbers.get("pods") == 1 else _HAVE_ROOM)

    def _of_nodes(self) -> str:
        numbers = self.numbers
        text = TABLE[self.code].text if self.code in _OF_NODES else _NONE_AVAILABLE
        if numbers.get("pods") != numbers.get("of"):
            text = text.replace(_NONE_AVAILABLE, _FOR_SOME)
        if self.code is Code.LARGER_THAN_ANY_NODE and "largest" not in numbers:
            return text.partition("; the largest")[0]  # no one resource is what all nodes lack
        return text if "near" in numbers else text.partition(", did you mean")[0]

    def _of_room(self) -> str:
        if self.code is Code.LOST_TO_OTHERS and "what" not in self.numbers:
            return _NOT_BESIDE_OTHERS
        text = TABLE[self.code].text
        if self.numbers.get("pods") == 1:
            text = text.replace("all {pods} pods at once", "the pod")
            text = text.replace("{short} pods find no node with {what}", "no node has {what}")
        elif self.numbers.get("short") == 1:
            text = text.replace("{short} pods find", "{short} pod finds")
        return text + _UNSCHEDULABLE if self.numbers.get("unschedulable") else text
