"""`fleet jobs`: every job with its state, its place in its queue, where it is, and the one reason why it waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import completers, lists, ownerless
from fleet.cli.colors import Color
from fleet.cli.failure import Failure
from fleet.cli.joblist import ELSEWHERE, pages
from fleet.cli.options import (
    AllNamespacesOption,
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    NamespaceOption,
    QueueOption,
    SelectorOption,
    SinceOption,
    WatchOption,
)
from fleet.values.durations import human
from fleet.values.times import seconds

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

STATES = (
    "Unclaimed",
    "Queued",
    "Held",
    "Reserved",
    "BackOff",
    "Waiting",
    "Placed",
    "Created",
    "Running",
    "Suspended",
    "Evicting",
    "Succeeded",
    "Failed",
    "Deleting",
)
PART = "jobs that you may not list are left out"
LIST = lists.Listing(
    columns=("name", "kind", "state", "position", "member", "age", "reason"),
    wide=(
        "name",
        "kind",
        "state",
        "queue",
        "position",
        "priority",
        "user",
        "member",
        "attempt",
        "gpus",
        "pods",
        "age",
        "reason",
    ),
    sorts={
        "name": lambda line: (line["name"], line["namespace"]),
        "age": lambda line: line["created"] or "",
        "gpus": lambda line: line["gpus"],
        "priority": lambda line: line["priority"] or 0,
        "queue": lambda line: (line["queue"] or "", line["position"] or 0),
        "state": lambda line: line["state"],
        "user": lambda line: line["user"] or "",
    },
    word=lambda line: f"{line['kind'].lower()}/{line['name']}",
    key=("namespace", "kind", "name"),
    down=("age", "gpus", "priority"),  # the youngest, the largest, the first to go
    moving=("age",),
)


def jobs(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state; may be repeated.", autocompletion=completers.states)
    ] = None,
    queue: QueueOption = None,
    member: Annotated[str | None, typer.Option(help="Only in this member.", autocompletion=completers.members)] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only of this kind; may be repeated.", autocompletion=completers.kinds)
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only those that this user created.")] = None,
    own: Annotated[bool, typer.Option("--mine", help="Only those that you created.")] = False,
    selector: SelectorOption = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0: all.")] = 0,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs: state, place in queue, member, why one waits."""
    from fleet.cli.hub import connect
    from fleet.cli.when import moment

    how = lists.options(LIST, output, sort, watch, color, limit=limit, spaces=all_namespaces)
    states = lists.spelt("--state", state, STATES)
    earliest = moment(since, time.time()) if since else ""
    hub = connect(kubeconfig, data_dir, context)
    where = None if all_namespaces else namespace or hub.namespace
    filters: dict[str, str | list[str]] = {
        "state": states,
        "kind": kind or [],
        "queue": queue or "",
        "member": member or "",
        "user": _me(hub) if own else user or "",
        "labelSelector": selector or "",
        "since": earliest,
    }
    which = {name: value for name, value in filters.items() if value}
    nothing = "No such jobs" if which else "No jobs"
    lists.show(
        how,
        lambda: _lines(hub, where, which),
        nothing=f"{nothing} in {where} namespace" if where else nothing,
        looks=lambda: _looks(hub, where, which),
    )


def _lines(hub: HubClient, where: str | None, which: dict[str, str | list[str]]) -> Iterator[list[dict[str, Any]]]:
    """The lines of the jobs that were asked for, page by page. Raises Failure."""
    from fleet.cli.hub import HubRefusal

    try:
        beside = _ownerless(hub, where, which)
        for items, part in pages(hub, where, **which):
            if part:
                hub.note(PART)
            if not items and not beside:
                _must_exist(hub, which)
            now = time.time()
            yield [record(job, now) for job in (*items, *beside)]
            beside = []
    except HubRefusal as refused:
        raise Failure(f"{refused}{ELSEWHERE}" if where and refused.status == 403 else str(refused)) from refused


def _ownerless(hub: HubClient, where: str | None, which: dict[str, str | list[str]]) -> list[dict[str, Any]]:
    """The copies without jobs, where the question asks for nothing that only a job tells."""
    if not which.keys() <= {"kind", "member"}:
        return []
    return [job for job in ownerless.jobs(hub, where, which) if job["pods"]]


def _looks(hub: HubClient, where: str | None, which: dict[str, str | list[str]]) -> Iterator[list[dict[str, Any]]]:
    """All the jobs that were asked for, and again when one has changed, as the hub tells. Raises Failure."""
    from fleet.client.jobvalues import Job, JobChange
    from fleet.client.jobwatch import changes

    next(_lines(hub, where, which))  # says what is wrong with the question, and whether some are left out
    listed, complete = JobChange("LISTED", Job()), False
    records: dict[tuple[str, str, str], dict[str, Any]] = {}
    for change in hub.items(changes(hub.session, {"namespace": where, **which}, listed=listed)):
        place = change.job.namespace, change.job.name, change.job.kind
        if change is listed:
            complete = True
        elif change.type == "DELETED":
            records.pop(place, None)
        else:
            records[place] = record(dict(change.job.raw), time.time())
        if complete:
            yield [records[place] for place in sorted(records)]


def _must_exist(hub: HubClient, which: dict[str, str | list[str]]) -> None:
    """Raises Failure where no jobs are found because the queue or member that was named is not there."""
    from fleet.cli import cordon, queues
    from fleet.cli.hub import HubRefusal

    try:
        if queue := which.get("queue"):
            queues.below(queues.records(hub), str(queue))
        if member := which.get("member"):
            cordon.cluster_named(hub, str(member))
    except HubRefusal as refused:
        if refused.status != 403:
            raise


def _me(hub: HubClient) -> str:
    """The name by which the hub knows the user of this command."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = hub.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body).body
    return str(found["status"]["userInfo"]["username"])


def record(job: dict[str, Any], now: float) -> dict[str, Any]:
    """One job as a line, from what /fleet/v1 says of it; `now` in epoch seconds."""
    reason = job["reason"] or {}
    return {
        "namespace": job["namespace"],
        "name": job["name"],
        "kind": job["kind"],
        "state": job["state"],
        "queue": job["queue"],
        "position": job["position"],
        "tier": job["tier"],
        "priority": job["priority"],
        "attempt": job["attempt"],
        "gpus": job["gpus"],
        "pods": job["pods"],
        "user": job["user"],
        "created": job["created"],
        "member": job["member"] or "",
        "age": since(job["created"], now),
        "reason": reason.get("text") or reason.get("code") or "",
        "code": reason.get("code"),
        "numbers": reason.get("numbers"),
    }


def age(lasted_s: float) -> str:
    """Return a time span as kubectl prints ages: 8s, 3m44s, 15m, 2h5m, 15d; "0s" for less than none."""
    return human(max(0.0, lasted_s))


def since(time: str | None, now: float, missing: str = "") -> str:
    """Return the age of what happened at `time`, or `missing` without a time. This machine's clock may be behind."""
    at = seconds(time)
    return missing if at is None else age(now - at)
