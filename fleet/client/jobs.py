"""Looking at jobs: one, lists, changes, waiting, events, the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from fleet.client.errors import Ambiguous, JobFailed, NotFound, NotInTime
from fleet.client.jobvalues import OVER, Event, Explanation, Job, JobChange, JobDetail, JobLike
from fleet.client.steps import Flow, Give, Now, Pause, Request, Session, Steps, asked, got, with_query
from fleet.client.tables import Rows, moment

JOBS = "/fleet/v1/jobs"
PAGE = 1000
POLL_S = 1.0
WATCH_S = 2.0
UNSEEN_MOST_S = 20.0  # how long the newest snapshot may lack a job before the rest is shown without it
WAITS = ("Queued", "Held", "BackOff", "Waiting", "Suspended")  # where it has no member
LEFT_OUT = ("DeciderFailed",)  # reasons of jobs that are in no snapshot

Until = Literal["started", "finished", "deleted"]
Words = str | Sequence[str]
STATES: dict[Until, tuple[str, ...]] = {
    "started": ("Running", *OVER), "finished": OVER, "deleted": ("Deleted",),
}  # fmt: skip


def job(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[JobDetail]:
    """One job in detail, by NAME, KIND/NAME or a value that names it. Raises NotFound and Ambiguous."""
    if not isinstance(job, str):
        return JobDetail.of((yield from got(session, f"{JOBS}/{job.namespace}/{job.kind}/{job.name}")))
    where = namespace or session.namespace
    kind, _, name = job.rpartition("/")
    if not kind:
        page = yield from got(session, JOBS, namespace=where, name=name or job)
        kinds = sorted({str(found["kind"]) for found in page["items"]})
        if not kinds:
            raise NotFound(404, "NotFound", f'no job "{job}" in namespace {where}')
        if len(kinds) > 1:
            raise Ambiguous(f'"{job}" names several jobs: {", ".join(f"{one}/{name}" for one in kinds)}')
        kind = kinds[0]
    return JobDetail.of((yield from got(session, f"{JOBS}/{where}/{kind}/{name}")))


def jobs(
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
    name: str | None = None,
) -> Flow[Job]:
    """The jobs of a namespace (that of the client, where none is named) or of all, page by page. `labels`: a selector
    of Kubernetes, `team=a,stage!=test`; `since`: created then or later, a time with its zone."""
    query: dict[str, Words | None] = {
        "namespace": None if all_namespaces else namespace or session.namespace, "kind": kind, "state": state,
        "queue": queue, "member": member, "user": user, "labelSelector": labels, "name": name,
        "since": since.isoformat() if since is not None else None, "limit": str(PAGE),
    }  # fmt: skip
    while True:
        page = (yield from asked(session, Request("GET", with_query(JOBS, query)))).body
        for raw in page["items"]:
            yield Give(Job.of(raw))
        if page["continue"] is None:
            return
        query["continue"] = page["continue"]


def watch(
    session: Session, *, every_s: float = WATCH_S, namespace: str | None = None, all_namespaces: bool = False,
    kind: Words | None = None, queue: str | None = None, user: str | None = None, labels: str | None = None,
    name: str | None = None,
) -> Flow[JobChange]:  # fmt: skip
    """The jobs that are there, each as ADDED, and then each change of a job's state, place or reason, without an end.

    State and place are concluded from several objects, so the list is asked for each `every_s` seconds."""
    before: dict[tuple[str, str, str, datetime | None], Job] = {}
    while True:
        flow = jobs(
            session, namespace=namespace, all_namespaces=all_namespaces, kind=kind, queue=queue, user=user,
            labels=labels, name=name,
        )  # fmt: skip
        found = {(one.namespace, one.kind, one.name, one.created): one for one in (yield from collected(flow))}
        for key, gone in before.items():
            if key not in found:
                yield Give(JobChange("DELETED", gone))
        for key, one in found.items():
            if key not in before:
                yield Give(JobChange("ADDED", one))
            elif before[key] != one:
                yield Give(JobChange("MODIFIED", one))
        before = found
        yield Pause(every_s)


def collected(flow: Flow[Any]) -> Steps[list[Any]]:
    """All items of a flow, within an operation."""
    items: list[Any] = []
    outcome: Any = None
    try:
        command = next(flow)
        while True:
            if isinstance(command, Give):
                items.append(command.item)
                command = flow.send(None)
                continue
            try:
                outcome = yield command
            except Exception as error:
                command = flow.throw(error)
            else:
                command = flow.send(outcome)
    except StopIteration:
        return items


def wait(
    session: Session, job: JobLike, *, until: Until = "finished", timeout: float | None = None, check: bool = True,
    namespace: str | None = None,
) -> Steps[JobDetail]:  # fmt: skip
    """The job as soon as it has started, is finished or is deleted. Raises NotInTime after `timeout` seconds. While
    `check` is true, raises JobFailed for a job that has failed, or was deleted before."""
    if until not in STATES:
        raise ValueError(f"until must be one of {', '.join(STATES)}, not {until!r}")
    began: float = yield Now()
    try:
        seen = yield from _named(session, job, namespace)
    except NotFound:
        if until != "deleted":
            raise
        return _gone(session, job, namespace)
    while True:
        if seen.state in STATES[until] or seen.state == "Deleted":
            gone = seen.state == "Deleted" and until != "deleted"
            if check and (gone or (seen.state == "Failed" and until != "deleted")):
                raise JobFailed(seen, "was deleted" if gone else "failed")
            return seen
        now: float = yield Now()
        if timeout is not None and now - began >= timeout:
            raise NotInTime(seen, until, timeout)
        yield Pause(POLL_S if timeout is None else min(POLL_S, max(0.05, began + timeout - now)))
        seen = yield from _again(session, seen)


def _named(session: Session, named: JobLike, namespace: str | None) -> Steps[JobDetail]:
    return (yield from job(session, named, namespace=namespace))


def _gone(session: Session, job: JobLike, namespace: str | None) -> JobDetail:
    """A job of which nothing but its name is known any more."""
    if not isinstance(job, str):
        return JobDetail(namespace=job.namespace, kind=job.kind, name=job.name, state="Deleted")
    kind, _, name = job.rpartition("/")
    return JobDetail(namespace=namespace or session.namespace, kind=kind, name=name, state="Deleted")


def _again(session: Session, seen: JobDetail) -> Steps[JobDetail]:
    """The same job now; in the state Deleted when it is gone, or another has its name."""
    raw = yield from got(session, f"{JOBS}/{seen.namespace}/{seen.kind}/{seen.name}", missing=True)
    if raw is None or (seen.uid and raw["uid"] != seen.uid):
        return JobDetail.of({**seen.raw, "state": "Deleted", "reason": None})
    return JobDetail.of(raw)


def explain(
    session: Session, job: JobLike, *, patience_s: float = UNSEEN_MOST_S, namespace: str | None = None
) -> Steps[Explanation]:
    """Why a job waits, when it starts and changes that would start it now.

    A job that was submitted a moment ago may not be in the decider's newest snapshot: it is asked for again for
    `patience_s`, and then the answer has `answered=False`."""
    began: float = yield Now()
    seen = yield from _named(session, job, namespace)
    while True:
        told = None
        if seen.state in WAITS and not seen.member:
            path = f"{JOBS}/{seen.namespace}/{seen.kind}/{seen.name}/explanation"
            told = yield from got(session, path, missing=True)
        if told is not None:
            position = told.get("position") or {}
            given = {
                **told,
                "job": None,
                "answered": True,
                "place": position.get("place"),
                "ahead": position.get("ahead"),
            }
            return _explained(given, seen)
        code = seen.reason.code if seen.reason is not None else ""
        now: float = yield Now()
        if seen.state not in WAITS or seen.member or code in LEFT_OUT or now - began >= patience_s:
            return _explained({"reason": seen.reason.raw if seen.reason is not None else None}, seen)
        yield Pause(POLL_S)
        seen = yield from _again(session, seen)


def _explained(raw: dict[str, Any], seen: JobDetail) -> Explanation:
    return replace(Explanation.of(raw), job=seen)


def events(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[Rows[Event]]:
    """What happened to a job, as far as the hub still has its Events; the newest last."""
    seen = yield from _named(session, job, namespace)
    path = f"/api/v1/namespaces/{seen.namespace}/events"
    found = yield from got(session, path, fieldSelector=f"involvedObject.uid={seen.uid}")
    listed = [
        Event(
            at=moment(raw.get("lastTimestamp") or raw.get("eventTime") or raw["metadata"].get("creationTimestamp")),
            type=raw.get("type") or "", reason=raw.get("reason") or "", message=raw.get("message") or "",
            count=raw.get("count") or 1, raw=raw,
        )
        for raw in found["items"]
    ]  # fmt: skip
    return Rows(sorted(listed, key=lambda event: event.at.timestamp() if event.at else 0.0))
