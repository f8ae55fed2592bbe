"""`fleet jobs`: every job with its state, its place in its queue, where it is, and the one reason why it waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fleet.cli.failure import Failure
from fleet.cli.joblist import ELSEWHERE, listed
from fleet.cli.options import (
    AllNamespacesOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    SelectorOption,
)
from fleet.engine.durations import human
from fleet.model.times import rfc3339, seconds

if TYPE_CHECKING:
    from fleet.cli.hub import Hub


class JobsOutput(StrEnum):
    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


COLUMNS = ("name", "kind", "state", "position", "member", "age", "reason")
WIDE = (
    "name", "kind", "state", "queue", "position", "priority", "user", "member", "attempt", "gpus", "pods", "age",
    "reason",
)  # fmt: skip
STATES = (
    "Unclaimed", "Queued", "Held", "Reserved", "BackOff", "Waiting", "Placed", "Created", "Running", "Suspended",
    "Evicting", "Succeeded", "Failed", "Deleting",
)  # fmt: skip
WATCH_S = 2.0
PART = "jobs that you may not list are left out"
SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda line: (line["name"], line["namespace"]),
    "age": lambda line: line["created"] or "",
    "gpus": lambda line: line["gpus"],
    "priority": lambda line: line["priority"] or 0,
    "queue": lambda line: (line["queue"] or "", line["position"] or 0),
    "state": lambda line: line["state"],
    "user": lambda line: line["user"] or "",
}
DOWN = ("age", "gpus", "priority")  # the youngest, the largest, the first to go


def jobs(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    state: Annotated[list[str] | None, typer.Option(help="Only in this state; may be repeated.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only in this queue, by its path, and those below it.")] = None,
    member: Annotated[str | None, typer.Option(help="Only in this member.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only of this kind; may be repeated.")] = None,
    user: Annotated[str | None, typer.Option(help="Only those that this user created.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only those that you created.")] = False,
    selector: SelectorOption = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those created since then: 90m, 2d, or an RFC 3339 time.")
    ] = None,
    sort: Annotated[str, typer.Option(metavar="ORDER", help=f"{', '.join(SORTS)}; -age: the other way.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Print each line again when it changes.")] = False,
    output: Annotated[JobsOutput, typer.Option("--output", "-o", help="How to print.")] = JobsOutput.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs: state, place in the queue, member, why one waits."""
    from fleet.cli.hub import connect

    if sort.removeprefix("-") not in ("", *SORTS):
        raise Failure(f"--sort {sort}: is none of {', '.join(SORTS)}")
    if watch and output not in (JobsOutput.table, JobsOutput.wide):
        raise Failure("--watch prints tables alone")
    hub = connect(kubeconfig, data_dir, context)
    where = None if all_namespaces else namespace or hub.namespace
    filters: dict[str, str | list[str]] = {
        "state": [_state(text) for text in state or ()], "kind": kind or [], "queue": queue or "",
        "member": member or "", "user": _me(hub) if mine else user or "", "labelSelector": selector or "",
        "since": _moment(since, time.time()) if since else "",
    }  # fmt: skip
    which = {name: value for name, value in filters.items() if value}
    if watch:
        _watch(hub, where, which, sort, output)
    lines, part = _lines(hub, where, which, sort)
    if part:
        print(PART, file=sys.stderr)
    _show(lines, output, where, nothing="No such jobs" if which else "No jobs")


def _watch(hub: Hub, where: str | None, which: Mapping[str, Any], sort: str, output: JobsOutput) -> NoReturn:
    """Print the lines, and again each line that changes, until Ctrl-C."""
    seen: dict[tuple[str, ...], dict[str, Any]] = {}
    told = False
    while True:
        lines, part = _lines(hub, where, which, sort)
        if part and not told:
            print(PART, file=sys.stderr)
        told = told or part
        changed = [line for line in lines if _lasting(seen.get(_id(line))) != _lasting(line)]
        gone = [seen[id_] | {"state": "-", "reason": "no longer listed"} for id_ in seen.keys() - map(_id, lines)]
        _show([*changed, *gone], output, where, head=not seen)
        sys.stdout.flush()
        seen = {_id(line): line for line in lines}
        time.sleep(WATCH_S)


def _lines(hub: Hub, where: str | None, which: Mapping[str, Any], sort: str) -> tuple[list[dict[str, Any]], bool]:
    """The lines of the jobs that were asked for, in the order that was asked for, and whether the user may list only a
    part of them. Raises Failure."""
    from fleet.cli.hub import Refused

    try:
        found, part = listed(hub, where, **which)
    except Refused as refused:
        raise Failure(f"{refused}{ELSEWHERE}" if where and refused.status == 403 else str(refused)) from refused
    now = time.time()
    lines = [record(job, now) for job in found]
    if order := sort.removeprefix("-"):
        lines.sort(key=SORTS[order], reverse=(order in DOWN) != sort.startswith("-"))
    return lines, part


def _show(
    lines: Sequence[Mapping[str, Any]], output: JobsOutput, where: str | None, *, nothing: str = "", head: bool = True
) -> None:
    from fleet.cli.output import show

    nothing = nothing and f"{nothing} in {where} namespace" if where else nothing
    if output is JobsOutput.name:
        sys.stdout.writelines(f"{line['kind'].lower()}/{line['name']}\n" for line in lines)
        if not lines:
            print(nothing, file=sys.stderr)
        return
    columns = WIDE if output is JobsOutput.wide else COLUMNS
    columns = columns if where else ("namespace", *columns)
    form = Output.table if output is JobsOutput.wide else Output(output)
    show(lines, columns, form, nothing=nothing, head=head)


def _id(line: Mapping[str, Any]) -> tuple[str, ...]:
    return line["namespace"], line["kind"], line["name"]


def _lasting(line: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The line without its age, which changes all the time."""
    return None if line is None else {name: value for name, value in line.items() if name != "age"}


def _state(text: str) -> str:
    """The state as the hub spells it. Raises Failure."""
    found = next((state for state in STATES if state.lower() == text.lower()), None)
    if found is None:
        raise Failure(f"--state {text}: is none of {', '.join(STATES)}")
    return found


def _moment(text: str, now: float) -> str:
    """The time, in RFC 3339, that --since names. Raises Failure."""
    from fleet.cli.whatif_edits import seconds as lasting

    at = seconds(text) if "-" in text else now - lasting(text, "--since")
    if at is None:
        raise Failure(
            f"--since {text}: is neither a duration such as 90m, 12h or 2d nor a time such as 2026-01-31T08:00Z"
        )
    return rfc3339(at)


def _me(hub: Hub) -> str:
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
