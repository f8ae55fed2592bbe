"""`fleet history`: the jobs of the past, also those that the hub has deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

import typer

from fleet.cli import completers, lists, periods
from fleet.cli.colors import Color
from fleet.cli.examples import of
from fleet.cli.failure import Failure
from fleet.cli.jobs import PART, STATES
from fleet.cli.options import (
    AllNamespacesOption,
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    NamespaceOption,
    Output,
    OutputOption,
    QueueOption,
    WatchOption,
)
from fleet.values.durations import human
from fleet.values.times import seconds

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

HISTORY = "/fleet/v1/history"
PAGE = 1000
LIST = lists.Listing(
    columns=("name", "kind", "state", "submitted", "waited", "ran", "gpus", "gpu_hours", "members"),
    wide=(
        "name",
        "kind",
        "state",
        "user",
        "queue",
        "submitted",
        "waited",
        "ran",
        "ended",
        "gpus",
        "models",
        "gpu_hours",
        "lost",
        "attempts",
        "evictions",
        "why",
        "uid",
        "members",
    ),
    sorts={
        "submitted": lambda job: job["submitted"],
        "name": lambda job: (job["name"], job["namespace"]),
        "state": lambda job: job["state"],
        "user": lambda job: job["user"] or "",
        "queue": lambda job: job["queue"] or "",
        "waited": lambda job: job["waitedS"],
        "gpu-hours": lambda job: job["gpuHours"],
        "lost": lambda job: job["lostGpuHours"],
    },
    word=lambda job: f"{job['kind'].lower()}/{job['name']}",
    key=("uid",),
    down=("submitted", "waited", "gpu-hours", "lost"),
    moving=("waited", "ran", "gpu_hours", "waitedS", "ranS", "gpuHours"),
)
UNRECORDED = "nothing is recorded yet: the hub records a job some seconds after it is submitted"
app = typer.Typer(rich_markup_mode=None, epilog=of("history"))
UserOption = Annotated[str | None, typer.Option(help="Only jobs that this user created.")]
MemberOption = Annotated[
    str | None, typer.Option(help="Only what was in this member.", autocompletion=completers.members)
]
KindOption = Annotated[str | None, typer.Option(help="Only jobs of this kind.", autocompletion=completers.kinds)]
ModelOption = Annotated[str | None, typer.Option(help="Only what was on GPUs of this model.")]


@app.callback(invoke_without_command=True)
def history(
    called: typer.Context,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    name: Annotated[str | None, typer.Option(help="Only jobs of this name.")] = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state; may be repeated.", autocompletion=completers.states)
    ] = None,
    user: UserOption = None,
    queue: QueueOption = None,
    member: MemberOption = None,
    kind: KindOption = None,
    model: ModelOption = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs that were not over before: 7d, yesterday, 2026-11.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only jobs submitted before the end of it.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest; 0: all.")] = 100,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs of the past: waits, times, GPU-hours.

    The newest submission first, those that still go on too. Jobs stay here when the hub has deleted them.
    """
    if called.invoked_subcommand is not None:
        return
    from fleet.cli.hub import connect

    how = lists.options(LIST, output, sort, watch, color, spaces=all_namespaces)
    states = lists.spelt("--state", state, (*STATES, "Deleted"))
    start, end = periods.bounds(since, until, time.time(), ("--since", "--until"), open_end=True)
    hub = connect(kubeconfig, data_dir, context)
    which = {
        "namespace": None if all_namespaces else namespace or hub.namespace,
        "name": name,
        "state": states,
        "user": user,
        "queue": queue,
        "member": member,
        "kind": kind,
        "model": model,
        "since": start and start.isoformat(),
        "until": end and end.isoformat(),
    }
    people = output not in (ListOutput.json, ListOutput.yaml)

    def fetch() -> Iterator[list[lists.Record]]:
        now, count = time.time(), 0
        for page in pages(hub, HISTORY, limit, **which):
            if page["partial"] and all_namespaces:
                hub.note(PART)
            if not page["items"]:
                since = page["recordedSince"]
                hub.note(f"the hub records since {since}" if since else UNRECORDED)
            yield [_line(job, now) if people else job for job in page["items"]]
            count += len(page["items"])
            if page["continue"] is not None and count == limit:
                hub.note(f"there are more than these {limit} (--limit)")

    lists.show(how, fetch, nothing="No such jobs in the history")


@app.command("forget", epilog=of("history forget"))
def forget(
    user: Annotated[str, typer.Option(help="Name of the user, as the history has it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Take the name of a user out of all records.

    The records stay, without the name: sums by queue, namespace and member stay as they are. Jobs that the hub still
    has name their creator as before.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    hub = connect(kubeconfig, data_dir, context)
    if not yes and not typer.confirm(f'Take "{user}" out of the history for ever?', err=True):
        raise Failure("nothing was changed")
    done = hub.request("DELETE", f"{HISTORY}/users/{quote(user, safe='')}").body
    if output is not Output.table:
        show_one(done, output)
    elif done["rows"]:
        print(f'"{user}" is taken out of {done["rows"]} records')
    else:
        print(f'no record names "{user}"')


def pages(hub: HubClient, path: str, limit: int, **which: Any) -> Iterator[dict[str, Any]]:
    """The answers of the hub at `path` with the newest, at most `limit`; 0: all."""
    query = {key: value for key, value in which.items() if value}
    count = 0
    while True:
        query["limit"] = min(PAGE, limit - count) if limit else PAGE
        page = hub.request("GET", f"{path}?{urlencode(query, doseq=True)}").body
        yield page
        count += len(page["items"])
        if page["continue"] is None or (limit and count >= limit):
            return
        query["continue"] = page["continue"]


def listed(hub: HubClient, **which: Any) -> list[dict[str, Any]]:
    """The newest of these jobs, a page of them."""
    return [job for page in pages(hub, HISTORY, PAGE, **which) for job in page["items"]]


def hours(value: float) -> str:
    """GPU-hours, as exact as they are worth."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 0.1 or not value else f"{value:.3f}"


def _line(job: Mapping[str, Any], now: float) -> dict[str, Any]:
    started, ended = seconds(job["started"]), seconds(job["ended"])
    return {
        **job,
        "waited": human(job["waitedS"]) if started is not None or ended is None else "",
        "ran": human(job["ranS"]) if started is not None else "",
        "gpu_hours": hours(job["gpuHours"]),
        "lost": hours(job["lostGpuHours"]),
        "models": ", ".join(f"{count} × {model}" for model, count in job["models"].items()),
        "members": ", ".join(job["members"]),
    }
