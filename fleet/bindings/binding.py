"""What a ResourceBinding says, read in one place: where it is, what it waits for, how often it failed, what it uses.

Several loops conclude from the same fields. Each conclusion is one pure function here, so that they cannot differ;
docs/reference/objects.md says who writes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from fleet.bindings.conditions import condition, is_true
from fleet.members.members import PodView
from fleet.model.charge import running
from fleet.model.times import seconds
from fleet.model.unit import Component
from fleet.model.untyped import mapping, pairs, rows, text, texts
from fleet.ports import Body
from fleet.wellknown import (
    ANNOTATION_BACKOFF_LIMIT,
    ANNOTATION_ENQUEUED,
    ANNOTATION_HOLD,
    ANNOTATION_POLICY,
    ANNOTATION_QUEUEING,
    ANNOTATION_RETRIES,
    ANNOTATION_SUSPENDED,
    ATTEMPT,
    QUEUING,
)

FINISHED = "Finished"  # condition: True with reason Succeeded or Failed once the member says that the job is over
REACHABLE = "MemberReachable"  # condition: only while it is False
WITHDRAWN = "Withdrawn"  # condition: only while it is False: what leaves a member has not left it in time
OVER_TIME = "MaximumExecutionTimeExceeded"  # reason of an eviction
FAILURES_KEPT = 20
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
BACKOFF_LIMIT = 100  # attempts, where neither job nor policy says; then a job is held
DIGITS_MAX = 18  # of a number in an annotation; more of them say none
LIVE_PHASES = ("Pending", "Running", "Unknown")


def spec_of(body: Body) -> Mapping[str, Any]:
    """Its spec, empty where it has none that can be read."""
    return mapping(body.get("spec"))


def labels_of(body: Body) -> Mapping[str, str]:
    return pairs(body["metadata"].get("labels"))


def resource_of(binding: Body) -> Mapping[str, Any]:
    """The object that it places; empty where it says none that can be read."""
    return mapping(spec_of(binding).get("resource"))


def is_gang(binding: Body) -> bool:
    return bool(spec_of(binding).get("gang"))


def deleting(body: Body) -> bool:
    return "deletionTimestamp" in body["metadata"]


def clusters_of(binding: Body) -> tuple[str, ...]:
    """The members that it is placed in; empty while it waits."""
    return tuple(text(entry.get("name")) for entry in rows(spec_of(binding).get("clusters")))


def tasks_of(binding: Body) -> tuple[dict[str, Any], ...]:
    """Its graceful eviction tasks: members that it is leaving."""
    tasks = rows(spec_of(binding).get("gracefulEvictionTasks"))
    return tuple({**task, "fromCluster": text(task.get("fromCluster"))} for task in tasks)


def queued(binding: Body) -> bool:
    """Whether it waits in a queue now."""
    return bool(mapping(spec_of(binding).get("suspension")).get("scheduling"))


def dispatching_suspended(binding: Body, member: str) -> bool:
    """Whether its policy wants nothing sent to this member now; what is there already stays as it is."""
    suspension = mapping(spec_of(binding).get("suspension"))
    named = texts(mapping(suspension.get("dispatchingOnClusters")).get("clusterNames"))
    return bool(suspension.get("dispatching")) or member in named


def suspended(binding: Body) -> bool:
    """Whether its user suspended the job: it does not start, and leaves its member when it runs."""
    return annotation(binding, ANNOTATION_SUSPENDED) == "true"


def held(binding: Body) -> bool:
    """Whether a person keeps the job from starting; one that runs goes on."""
    return annotation(binding, ANNOTATION_HOLD) == "true"


def wants_queue(binding: Body) -> bool:
    """Whether its policy wants it to wait in a queue whenever it waits."""
    return annotation(binding, ANNOTATION_QUEUEING) == "true"


def under_quota(binding: Body) -> bool:
    """Whether it is charged to quota: it waits in a queue, or came out of one."""
    return queued(binding) or condition(binding, QUEUING) is not None


def annotation(body: Body, name: str) -> str:
    annotations = body["metadata"].get("annotations")
    return text(annotations.get(name)) if isinstance(annotations, dict) else ""


def of_tenant(binding: Body) -> bool:
    """Whether a policy of a namespace stands behind it, or none any more: it has the rights of a tenant."""
    return not annotation(binding, ANNOTATION_POLICY).startswith("ClusterPropagationPolicy ")


def attempt(binding: Body) -> int:
    """Number of the latest placement; 0 = never placed."""
    return number(annotation(binding, ATTEMPT)) or 0


def number(said: str) -> int | None:
    """The whole number that a text of digits says, None for any other text."""
    return int(said) if said.isascii() and said.isdigit() and len(said) <= DIGITS_MAX else None


def job_name(binding: Body) -> str:
    """namespace/name of the job, for people."""
    resource = resource_of(binding)
    name = text(resource.get("name")) or str(binding["metadata"].get("name"))
    return f"{resource['namespace']}/{name}" if resource.get("namespace") else name


def enqueued_at(binding: Body) -> float:
    created = seconds(text(binding["metadata"].get("creationTimestamp"))) or 0.0
    return seconds(annotation(binding, ANNOTATION_ENQUEUED)) or created


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that came to nothing. `user`: the job's own fault, counted against its retries."""

    member: str
    at: float
    reason: str
    user: bool = False
    backoff: bool = True  # waits before the next attempt
    message: str = ""  # for people; the evictor fills it in
    number: int = 0  # how many there were with it, of those that back off; 0 for one of before this was counted


def failures_of(binding: Body) -> tuple[Failure, ...]:
    """Newest last; what does not parse counts as no failures (a person may edit the annotation)."""
    said = annotation(binding, ANNOTATION_RETRIES)
    if not said:
        return ()
    try:
        return tuple(
            Failure(
                str(entry.get("member", "")),
                float(entry.get("at", 0)),
                str(entry.get("reason", "")),
                bool(entry.get("user")),
                bool(entry.get("backoff", True)),
                str(entry.get("message", "")),
                int(entry.get("number", 0)),
            )
            for entry in orjson.loads(said)
        )
    except (ValueError, AttributeError, TypeError, OverflowError):
        return ()


def failures_text(failures: Sequence[Failure]) -> str:
    return orjson.dumps([asdict(failure) for failure in failures[-FAILURES_KEPT:]]).decode()


def with_failure(failures: Sequence[Failure], failure: Failure) -> tuple[Failure, ...]:
    """One more, counted: only the newest are kept, and the number goes on."""
    return (*failures, replace(failure, number=backoffs(failures) + failure.backoff))


def backoffs(failures: Sequence[Failure]) -> int:
    """How many attempts came to nothing and were followed by a back-off."""
    return max(failures[-1].number if failures else 0, sum(1 for failure in failures if failure.backoff))


def gave_up(binding: Body) -> str:
    """Why no further attempt is made, after too many that came to nothing; "" while there will be another."""
    failures = failures_of(binding)
    said = number(annotation(binding, ANNOTATION_BACKOFF_LIMIT))
    limit = BACKOFF_LIMIT if said is None else said
    count = backoffs(failures)
    if limit == 0 or count < limit:
        return ""
    attempts, last = "1 attempt" if count == 1 else f"{count} attempts", failures[-1]
    return f"{attempts} came to nothing, the last: {last.message or last.reason}"


def backoff_until(failures: Sequence[Failure]) -> float | None:
    """When the next attempt may start: 1 s after the first failure, doubling to 5 minutes; None without a back-off."""
    if not failures or not failures[-1].backoff:
        return None
    return failures[-1].at + min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(backoffs(failures) - 1, 60))


def finished(binding: Body) -> bool:
    return is_true(binding, FINISHED)


def charged_components(admitted: tuple[Component, ...], pods: Iterable[PodView]) -> tuple[Component, ...]:
    """What a gang is charged in its member: what it was admitted with, or what its pods there show where that is more.
    A pod that is on its way out counts no second time beside the one that comes for it."""
    live = [(pod.component, pod.requests) for pod in pods if pod.phase in LIVE_PHASES and not pod.terminating]
    return tuple(running(admitted, live))


def charged(binding: Body, pods: Iterable[PodView]) -> bool:
    """Whether the gang uses quota and room: from the moment it is placed until its member shows the job over and its
    last pod gone or finished. A status that is not there (yet, or any more) never counts as over."""
    if tasks_of(binding):
        return True
    if finished(binding):
        return any(pod.phase in LIVE_PHASES for pod in pods)
    return bool(clusters_of(binding)) or (deleting(binding) and bool(tuple(pods)))
