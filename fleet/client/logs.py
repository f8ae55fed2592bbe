"""The pods of a job and their logs, by the hub's relay: lines with the name and the rank of their pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fleet.client.errors import BadRequest, Forbidden, NotFound, Refused
from fleet.client.following import followed
from fleet.client.jobs import job as looked_at
from fleet.client.jobvalues import JobDetail, JobLike, LogLine, Pod
from fleet.client.steps import Flow, Give, NextLine, Request, Say, Session, Steps, asked, got, with_query
from fleet.client.tables import Rows

POD_HEADER = "fleet-pod"


def logs(
    session: Session,
    job: JobLike,
    *,
    rank: int | None = None,
    role: str | None = None,
    index: int | None = None,
    pod: str | None = None,
    container: str | None = None,
    follow: bool = False,
    tail: int | None = None,
    since_s: int | None = None,
    since: datetime | None = None,
    timestamps: bool = False,
    previous: bool = False,
    namespace: str | None = None,
) -> Flow[LogLine]:
    """The lines that the pods of a job have printed, rank after rank: of all pods, or of the one of the `rank`, of the
    `role` and `index`, or of the name `pod`. A pod that is gone, or has not started, has none. `tail`: only so many of
    the end, of each pod.

    `follow`: the lines of all these pods as they come, until the job is over. A job that waits is waited for, pods that
    come later are read as well, and a connection that is lost is made again."""
    if rank is not None and (role is not None or index is not None or pod is not None):
        raise ValueError("rank stands alone, without role, index and pod")
    if follow and previous:
        raise ValueError("previous is of a container that has ended: it does not go with follow")
    detail = yield from looked_at(session, job, namespace=namespace)
    if rank is not None:
        role, index = _of_rank(detail, rank)
    query = {
        "container": container,
        "tailLines": None if tail is None else str(tail),
        "sinceSeconds": None if since_s is None else str(since_s),
        "sinceTime": None if since is None else since.isoformat(timespec="seconds"),
        "previous": "true" if previous else None,
    }
    choice = {"role": role, "index": None if index is None else str(index), "pod": pod}
    flag = "true" if timestamps else None
    is_single = any(value is not None for value in choice.values())
    if is_single and pod is None:
        rank = _rank_of(detail, role, index or 0)
    try:
        if follow:
            if rank is None and role is not None:
                raise _no_such_role(detail, role)
            yield from followed(session, detail, query, rank=rank, name=pod, timestamps=timestamps)
        elif is_single:
            yield from _log(session, detail, {**choice, **query, "timestamps": flag}, rank)
        else:
            yield from _each(session, detail, {**query, "timestamps": flag})
    except Forbidden as no:  # a role may have the right to the log, and none to the list of pods
        if is_single or "/pods" not in no.message:
            raise
        yield from _log(session, detail, {**query, "timestamps": flag, "follow": "true" if follow else None})


def all_logs(
    session: Session, job: JobLike, *, tail: int | None = None, timestamps: bool = False, namespace: str | None = None
) -> Flow[LogLine]:
    """The same as `logs` of all pods."""
    yield from logs(session, job, tail=tail, timestamps=timestamps, namespace=namespace)


def pods(session: Session, job: JobLike, *, usage: bool = False, namespace: str | None = None) -> Steps[Rows[Pod]]:
    """The pods of a job by rank, masters before workers. `usage`: with what they use, where the member tells it."""
    found = yield from looked_at(session, job, namespace=namespace)
    answer = yield from got(session, f"{found.object}/pods", usage="true" if usage else None)
    return Rows(Pod.of(raw) for raw in answer["items"])


def _each(session: Session, job: JobDetail, query: Mapping[str, str | None]) -> Flow[LogLine]:
    """The logs of all pods, one after the other. Raises the first refusal where there is no log at all."""
    refusals: list[Refused] = []
    all_pods = yield from pods(session, job)
    for pod in all_pods:
        try:
            yield from _log(session, job, {**query, "pod": pod.name, "cluster": pod.member}, pod.rank)
        except (BadRequest, NotFound) as no:
            refusals.append(no)
    if not all_pods:
        raise NotFound(404, "NotFound", f"{job.place} has no pods any more")
    if len(refusals) == len(all_pods):
        raise refusals[0]
    for refusal in refusals:
        yield Say(refusal.message)


def _log(session: Session, job: JobDetail, query: Mapping[str, str | None], rank: int | None = None) -> Flow[LogLine]:
    """The log of one pod."""
    path = with_query(f"{job.object}/log", query)
    answer = yield from asked(
        session, Request("GET", path, accept="*/*", stream=True, endless=query.get("follow") is not None)
    )
    name = answer.headers.get(POD_HEADER, "")
    while True:
        line: str | None = yield NextLine()
        if line is None:
            return
        yield Give(LogLine(pod=name, text=line, rank=rank))


def _of_rank(job: JobDetail, rank: int) -> tuple[str, int]:
    """The component and the number of the pod in it: ranks count through the components in their order."""
    first = 0
    for component in job.components:
        if first <= rank < first + component.replicas:
            return component.name, rank - first
        first += component.replicas
    raise BadRequest(400, "BadRequest", f"{job.place} has ranks 0 to {first - 1}, not {rank}")


def _rank_of(job: JobDetail, role: str | None, index: int) -> int | None:
    """The rank of the pod of this number in a component, or in the first; None for no component of the job."""
    first = 0
    for component in job.components:
        if role is None or component.name.lower() == role.lower():
            return first + index
        first += component.replicas
    return None


def _no_such_role(job: JobDetail, role: str) -> BadRequest:
    roles = ", ".join(component.name for component in job.components)
    return BadRequest(400, "BadRequest", f"{job.place} has the roles {roles}, not {role}")
