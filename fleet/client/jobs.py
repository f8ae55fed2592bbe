"""Looking at jobs: one, lists, events, the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from fleet.client.errors import Ambiguous, NotFound
from fleet.client.jobvalues import Event, Explanation, Job, JobDetail, JobLike, Named
from fleet.client.steps import Flow, Give, Now, Pause, Request, Session, Steps, asked, got, with_query
from fleet.client.tables import Rows, moment

JOBS = "/fleet/v1/jobs"
PAGE = 1000
POLL_S = 1.0
UNSEEN_MOST_S = 20.0  # how long the newest snapshot may lack a job before the rest is shown without it
WAITS = ("Queued", "Held", "BackOff", "Waiting", "Suspended")  # where it has no member
LEFT_OUT = ("DeciderFailed", "TooCostly")  # reasons of jobs that are in no snapshot

Words = str | Sequence[str]


def job(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[JobDetail]:
    """One job in detail, by NAME, KIND/NAME or KIND.GROUP/NAME, or by a value that names it. Raises NotFound and
    Ambiguous."""
    if not isinstance(job, str):
        return JobDetail.of((yield from got(session, f"{JOBS}/{job.namespace}/{_kind(job)}/{job.name}")))
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


def _kind(job: Named) -> str:
    """The kind with its group, where the value says the group: what `submit` returns says it beside the kind, and a job
    of the hub's in the kind, where the kind alone means another."""
    group = str(getattr(job, "api_version", "")).rpartition("/")[0]
    return f"{job.kind}.{group}" if group and "." not in job.kind else job.kind


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
    name: Words | None = None,
) -> Flow[Job]:
    """The jobs of a namespace (that of the client, where none is named) or of all, page by page. `labels`: a selector
    of Kubernetes, `team=a,stage!=test`; `since`: created then or later, a time with its zone."""
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
        "limit": str(PAGE),
    }
    while True:
        page = (yield from asked(session, Request("GET", with_query(JOBS, query)))).body
        for raw in page["items"]:
            yield Give(Job.of(raw))
        if page["continue"] is None:
            return
        query["continue"] = page["continue"]


def named(session: Session, it: JobLike, namespace: str | None) -> Steps[JobDetail]:
    """`job`, for an operation whose parameter has that name."""
    return (yield from job(session, it, namespace=namespace))


def gone(session: Session, job: JobLike, namespace: str | None) -> JobDetail:
    """A job of which nothing but its name is known any more."""
    if not isinstance(job, str):
        return JobDetail(namespace=job.namespace, kind=job.kind, name=job.name, state="Deleted")
    kind, _, name = job.rpartition("/")
    return JobDetail(namespace=namespace or session.namespace, kind=kind, name=name, state="Deleted")


def again(session: Session, seen: JobDetail) -> Steps[JobDetail]:
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
    detail = yield from named(session, job, namespace)
    while True:
        document = None
        if detail.state in WAITS and not detail.member:
            path = f"{JOBS}/{detail.namespace}/{detail.kind}/{detail.name}/explanation"
            document = yield from got(session, path, missing=True)
        if document is not None:
            position = document.get("position") or {}
            fields = {
                **document,
                "job": None,
                "answered": True,
                "place": position.get("place"),
                "ahead": position.get("ahead"),
            }
            return _explained(fields, detail)
        code = detail.reason.code if detail.reason is not None else ""
        now: float = yield Now()
        if detail.state not in WAITS or detail.member or code in LEFT_OUT or now - began >= patience_s:
            return _explained({"reason": detail.reason.raw if detail.reason is not None else None}, detail)
        yield Pause(POLL_S)
        detail = yield from again(session, detail)


def _explained(raw: dict[str, Any], seen: JobDetail) -> Explanation:
    return replace(Explanation.of(raw), job=seen)


def events(session: Session, job: JobLike, *, namespace: str | None = None) -> Steps[Rows[Event]]:
    """What happened to a job, as far as the hub still has its Events; the newest last."""
    seen = yield from named(session, job, namespace)
    path = f"/api/v1/namespaces/{seen.namespace}/events"
    answer = yield from got(session, path, fieldSelector=f"involvedObject.uid={seen.uid}")
    listed = [
        Event(
            at=moment(raw.get("lastTimestamp") or raw.get("eventTime") or raw["metadata"].get("creationTimestamp")),
            type=raw.get("type") or "",
            reason=raw.get("reason") or "",
            message=raw.get("message") or "",
            count=raw.get("count") or 1,
            raw=raw,
        )
        for raw in answer["items"]
    ]
    return Rows(sorted(listed, key=lambda event: event.at.timestamp() if event.at else 0.0))
