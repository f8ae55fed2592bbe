"""The attempts of a gang that came to nothing, as its binding's annotation says; how long it backs off after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import orjson

from fleet.bindings import binding as b
from fleet.core.model.reason import Code
from fleet.values.ports import Body
from fleet.values.untyped import digits, mapping, texts, whole
from fleet.wellknown import ANNOTATION_BACKOFF_LIMIT, ANNOTATION_RETRIES

FAILURES_KEPT = 20
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
USER_FAILURES_MAX = 3  # moves of a job by its own fault, after which it stays Failed
INFRASTRUCTURE_FAILURES_MAX = 20  # the same by faults of nodes
APPLICATION = "ApplicationFailure"  # reason of a failure of the job itself, not of sending or placing it
BACKOFF_LIMIT = 100  # attempts, where neither job nor policy says; then a job is held


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """One attempt that came to nothing. `user`: the job's own fault, counted against its retries."""

    member: str
    at: float
    reason: str
    user: bool = False
    backoff: bool = True  # waits before the next attempt
    message: str = ""  # for people; the evictor fills it in
    number: int = 0  # how many there were with it, of those that back off; 0 for one of before this was counted
    nodes: tuple[str, ...] = ()  # nodes that the failure is put down to
    first_s: float = BACKOFF_FIRST_S  # the back-off after the first failure, which doubles
    users: int = 0  # how many there were with it by the job's own fault
    others: int = 0  # how many jobs' failures with it by the infrastructure


def failures_of(binding: Body) -> tuple[AttemptFailure, ...]:
    """Newest last; text that does not parse counts as no failures (a person may edit the annotation)."""
    text = b.annotation(binding, ANNOTATION_RETRIES)
    if not text:
        return ()
    try:
        return tuple(
            AttemptFailure(
                str(entry.get("member", "")),
                float(entry.get("at", 0)),
                str(entry.get("reason", "")),
                bool(entry.get("user")),
                bool(entry.get("backoff", True)),
                str(entry.get("message", "")),
                int(entry.get("number", 0)),
                texts(entry.get("nodes")),
                float(entry.get("first_s", BACKOFF_FIRST_S)),
                int(entry.get("users", 0)),
                int(entry.get("others", 0)),
            )
            for entry in orjson.loads(text)
        )
    except (ValueError, AttributeError, TypeError, OverflowError):
        return ()


def left_behind(binding: Body) -> frozenset[str]:
    """The members that it left while they could not be reached: what it had there was not waited for."""
    return frozenset(one.member for one in failures_of(binding) if one.reason == Code.MEMBER_UNREACHABLE)


def failures_text(failures: Sequence[AttemptFailure]) -> str:
    return orjson.dumps([asdict(failure) for failure in failures[-FAILURES_KEPT:]]).decode()


def with_failure(failures: Sequence[AttemptFailure], failure: AttemptFailure) -> tuple[AttemptFailure, ...]:
    """A further failure, counted: only the newest are kept, and the number goes on."""
    counted = replace(
        failure,
        number=backoffs(failures) + failure.backoff,
        users=failed(failures, user=True) + failure.user,
        others=failed(failures, user=False) + (failure.reason == APPLICATION and not failure.user),
    )
    return (*failures, counted)


def failed(failures: Sequence[AttemptFailure], *, user: bool) -> int:
    """How often the job failed by its own fault, or by the infrastructure's, and was moved."""
    told = (failures[-1].users if user else failures[-1].others) if failures else 0
    return max(told, sum(1 for one in failures if one.reason == APPLICATION and one.user is user))


def failures_max(binding: Body, *, user: bool) -> int:
    """So many moves after failures by its own fault, or by the infrastructure's, its policy allows."""
    application = mapping(mapping(b.spec_of(binding).get("failover")).get("application"))
    said = application.get("backoffLimit" if user else "infrastructureBackoffLimit")
    return whole(said, USER_FAILURES_MAX if user else INFRASTRUCTURE_FAILURES_MAX)


def first_pause_s(binding: Body) -> float:
    """The back-off after the first failure of the job, as its policy says."""
    application = mapping(mapping(b.spec_of(binding).get("failover")).get("application"))
    said = whole(application.get("backoffSeconds"), -1)
    return BACKOFF_FIRST_S if said < 0 else float(said)


def backoffs(failures: Sequence[AttemptFailure]) -> int:
    """How many attempts came to nothing and were followed by a back-off."""
    return max(failures[-1].number if failures else 0, sum(1 for failure in failures if failure.backoff))


def gave_up(binding: Body) -> str:
    """Why no further attempt is made, after too many that came to nothing; "" while there will be another."""
    failures = failures_of(binding)
    said = digits(b.annotation(binding, ANNOTATION_BACKOFF_LIMIT))
    limit = BACKOFF_LIMIT if said is None else said
    count = backoffs(failures)
    if limit == 0 or count < limit:
        return ""
    attempts, last = "1 attempt" if count == 1 else f"{count} attempts", failures[-1]
    return f"{attempts} came to nothing, the last: {last.message or last.reason}"


def backoff_until(failures: Sequence[AttemptFailure]) -> float | None:
    """When the next attempt may start: 1 s after the first failure, or as its policy says, doubling to 5 minutes; None
    without a back-off."""
    if not failures or not failures[-1].backoff:
        return None
    first = failures[-1].first_s
    return failures[-1].at + min(max(BACKOFF_MAX_S, first), first * 2.0 ** min(backoffs(failures) - 1, 60))
