"""The pods of a job and their logs, by the hub's relay: lines with the name of their pod."""

from __future__ import annotations

from fleet.client.errors import BadRequest, NotFound
from fleet.client.jobs import job as looked_at
from fleet.client.jobvalues import JobDetail, JobLike, LogLine, Pod
from fleet.client.steps import Flow, Give, NextLine, Request, Session, Steps, asked, got, with_query
from fleet.client.tables import Rows

POD_HEADER = "fleet-pod"


def logs(
    session: Session, job: JobLike, *, rank: int | None = None, role: str | None = None, index: int | None = None,
    pod: str | None = None, container: str | None = None, follow: bool = False, tail: int | None = None,
    since_s: int | None = None, timestamps: bool = False, previous: bool = False, namespace: str | None = None,
) -> Flow[LogLine]:  # fmt: skip
    """The lines that one pod of a job has printed: the pod of the `rank`, of the `role` and `index`, of the name `pod`,
    or else the job's first. `follow`: go on with what the pod prints, until it ends."""
    if rank is not None and (role is not None or index is not None or pod is not None):
        raise ValueError("rank stands alone, without role, index and pod")
    found = yield from looked_at(session, job, namespace=namespace)
    if rank is not None:
        role, index = _of_rank(found, rank)
    query = {
        "role": role, "index": None if index is None else str(index), "pod": pod, "container": container,
        "follow": "true" if follow else None, "tailLines": None if tail is None else str(tail),
        "sinceSeconds": None if since_s is None else str(since_s), "timestamps": "true" if timestamps else None,
        "previous": "true" if previous else None,
    }  # fmt: skip
    path = with_query(f"{found.object}/log", query)
    answer = yield from asked(session, Request("GET", path, accept="*/*", stream=True, endless=follow))
    name = answer.headers.get(POD_HEADER, "")
    while True:
        line: str | None = yield NextLine()
        if line is None:
            return
        yield Give(LogLine(name, line))


def all_logs(
    session: Session, job: JobLike, *, tail: int | None = None, timestamps: bool = False, namespace: str | None = None
) -> Flow[LogLine]:
    """The lines of all pods of a job, rank after rank. A pod that is gone, or has not started, has none."""
    found = yield from looked_at(session, job, namespace=namespace)
    for pod in (yield from pods(session, found)):
        try:
            yield from logs(session, found, pod=pod.name, tail=tail, timestamps=timestamps)
        except (BadRequest, NotFound):
            continue


def pods(session: Session, job: JobLike, *, usage: bool = False, namespace: str | None = None) -> Steps[Rows[Pod]]:
    """The pods of a job by rank, masters before workers. `usage`: with what they use, where the member tells it."""
    found = yield from looked_at(session, job, namespace=namespace)
    answer = yield from got(session, f"{found.object}/pods", usage="true" if usage else None)
    return Rows(Pod.of(raw) for raw in answer["items"])


def _of_rank(job: JobDetail, rank: int) -> tuple[str, int]:
    """The component and the number of the pod in it: ranks count through the components in their order."""
    first = 0
    for component in job.components:
        if first <= rank < first + component.replicas:
            return component.name, rank - first
        first += component.replicas
    raise BadRequest(400, "BadRequest", f"{job.place} has ranks 0 to {first - 1}, not {rank}")
