"""Jobs as they change, and waiting for one: the hub's own watch of jobs tells each state, also one that passes soon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from fleet.client.errors import JobFailed, NotFound, NotInTime, Refused, TooManyRequests, Unavailable, Unreachable
from fleet.client.jobs import Words, again, gone, named
from fleet.client.jobvalues import OVER, Job, JobChange, JobDetail, JobLike
from fleet.client.steps import Flow, Give, Now, Pause, Request, Session, Steps, asked, with_query
from fleet.client.watching import AGAIN_S, GONE, QUIET_S, next_event

WATCH = "/fleet/v1/watch/jobs"
STREAM_MOST_S = 3600.0
LATE_S = 10.0  # after the time that the hub was told, a stream is taken for dead

Until = Literal["started", "finished", "deleted"]
STATES: dict[Until, tuple[str, ...]] = {
    "started": ("Running", *OVER),
    "finished": OVER,
    "deleted": ("Deleted",),
}
Place = tuple[str, str, str]  # namespace, kind, name
Seen = dict[Place, tuple[str, Job]]  # each with its uid
Body = dict[str, Any]


def watch(
    session: Session,
    *,
    namespace: str | None = None,
    all_namespaces: bool = False,
    kind: Words | None = None,
    state: Words | None = None,
    queue: str | None = None,
    member: str | None = None,
    user: str | None = None,
    labels: str | None = None,
    since: datetime | None = None,
    name: Words | None = None,
    timeout: float | None = None,
) -> Flow[JobChange]:
    """The jobs that are there, each as ADDED, and then each change of a job's state, place or reason, without an end,
    or for `timeout` seconds.

    The filters are those of `jobs`. A job that comes to match them is ADDED, and one that matches no more is DELETED.
    The hub tells each state at once, and of a place in a queue that moves up by itself every few seconds. The watch
    goes on through lost connections and restarts of the hub; several changes in between are one then."""
    query: dict[str, Words | None] = {
        "namespace": None if all_namespaces else namespace or session.namespace,
        "kind": kind,
        "state": state,
        "queue": queue,
        "member": member,
        "user": user,
        "labelSelector": labels,
        "name": name,
        "since": since.isoformat() if since is not None else None,
    }
    yield from changes(session, query, timeout=timeout)


def changes(
    session: Session,
    query: Mapping[str, Words | None],
    *,
    timeout: float | None = None,
    listed: JobChange | None = None,
) -> Flow[JobChange]:
    """The same by the parameters of the route. `listed` is given each time after all the jobs that are there."""
    jobs: Seen = {}
    revision, begun = "", False
    started: float = yield Now()
    while True:
        now: float = yield Now()
        rest_s = STREAM_MOST_S if timeout is None else started + timeout - now
        if rest_s <= 0:
            return
        first: set[Place] | None = None if revision else set()
        try:
            yield from _opened(session, {**query, "resourceVersion": revision}, rest_s)
            begun = True
            while (event := (yield from next_event())) is not None:
                if event["type"] == "BOOKMARK":
                    for place in jobs.keys() - first if first is not None else ():
                        yield Give(JobChange("DELETED", jobs.pop(place)[1]))
                    if first is not None and listed is not None:
                        yield Give(listed)
                    revision, first = event["resourceVersion"], None
                    continue
                if first is not None:
                    first.add(_place(event["job"]))
                for change in _changes(jobs, event):
                    yield Give(change)
        except (Unreachable, TooManyRequests, Unavailable) as error:
            if not begun or (isinstance(error, Unreachable) and error.lasting):
                raise
            yield Pause(min(AGAIN_S, rest_s))
        except Refused as refused:
            if refused.status != GONE:
                raise
            revision = ""


def wait(
    session: Session,
    job: JobLike,
    *,
    until: Until = "finished",
    timeout: float | None = None,
    check: bool = True,
    namespace: str | None = None,
) -> Steps[JobDetail]:
    """The job as soon as it has started, is finished or is deleted. Raises NotInTime after `timeout` seconds. While
    `check` is true, raises JobFailed for a job that has failed and is not tried again, or was deleted before.

    The hub tells of the job; nothing is asked again and again. Restarts of the hub are waited for, too."""
    if until not in STATES:
        raise ValueError(f"until must be one of {', '.join(STATES)}, not {until!r}")
    began: float = yield Now()
    try:
        detail = yield from named(session, job, namespace)
    except NotFound:
        if until != "deleted":
            raise
        return gone(session, job, namespace)
    while not _there(detail, until):
        now: float = yield Now()
        rest_s = STREAM_MOST_S if timeout is None else began + timeout - now
        if rest_s <= 0:
            raise NotInTime(detail, until, timeout or 0.0)
        try:
            detail = yield from _changed(session, detail, until, rest_s)
        except (Unreachable, TooManyRequests, Unavailable) as error:
            if isinstance(error, Unreachable) and error.lasting:
                raise
            yield Pause(min(AGAIN_S, rest_s))
    was_deleted = detail.state == "Deleted" and until != "deleted"
    if check and (was_deleted or (detail.state == "Failed" and until != "deleted")):
        raise JobFailed(detail, "was deleted" if was_deleted else "failed")
    return detail


def _there(job: Job, until: Until) -> bool:
    """Whether the wait for it ends: a failed job that starts anew has not finished, and will have started."""
    return job.state in (*STATES[until], "Deleted") and not job.starts_anew


def _changed(session: Session, detail: JobDetail, until: Until, within_s: float) -> Steps[JobDetail]:
    """The job as soon as the wait for it ends, or as it stands when the stream ends."""
    query = {"namespace": detail.namespace, "kind": detail.kind, "name": detail.name}
    yield from _opened(session, query, within_s)
    is_listed = False
    while (event := (yield from next_event())) is not None:
        if event["type"] == "JOB" and event["uid"] == detail.uid:
            is_listed = True
            if _there(Job.of(event["job"]), until):  # and may have left it since
                now = yield from again(session, detail)
                return JobDetail.of({**now.raw, **event["job"]})
        elif event["type"] == "GONE" or not is_listed:
            break
    return (yield from again(session, detail))


def _opened(session: Session, query: Mapping[str, Words | None], within_s: float) -> Steps[None]:
    """Begin to read the stream, which ends in time."""
    within_s = min(STREAM_MOST_S, within_s)
    path = with_query(WATCH, {**query, "timeoutSeconds": f"{within_s:.3f}"})
    quiet_s = min(QUIET_S, within_s + LATE_S)
    try:
        yield from asked(session, Request("GET", path, stream=True, endless=True, quiet_s=quiet_s))
    except NotFound as no:
        raise NotFound(404, no.reason, "this hub is older than its client: it has no watch of jobs") from no


def _changes(jobs: Seen, event: Body) -> Iterator[JobChange]:
    """What a line means to somebody who has seen these. A job that was made anew is DELETED, then ADDED."""
    place, uid = _place(event["job"]), event["uid"]
    before = jobs.get(place)
    if event["type"] == "JOB":
        if before is not None and before[0] != uid:
            yield JobChange("DELETED", before[1])
            before = None
        now = Job.of(event["job"])
        jobs[place] = uid, now
        if before is None or before[1] != now:
            yield JobChange("ADDED" if before is None else "MODIFIED", now)
    elif before is None or before[0] != uid:
        return
    elif event["type"] == "GONE":
        yield JobChange("DELETED", jobs.pop(place)[1])
    elif event["type"] == "PLACE" and before[1].position not in (None, event["job"]["position"]):
        moved = {"position": event["job"]["position"]}
        jobs[place] = uid, replace(before[1], **moved, raw={**before[1].raw, **moved})
        yield JobChange("MODIFIED", jobs[place][1])


def _place(job: Body) -> Place:
    return job["namespace"], job["kind"], job["name"]
