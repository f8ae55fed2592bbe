"""`fleet logs`: what the pods of a job print, from whatever member the job is in.

One pod is printed as it is. Of several, each line begins with the name of its pod.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import JOB, ContextOption, DataDirOption, KubeconfigOption, NamespaceOption

if TYPE_CHECKING:
    from pathlib import Path

    from fleet.cli.hublogs import LineFilter
    from fleet.cli.jobselection import HubJob

NOT_LISTED = (403, 404)  # answers of a hub, or of a role, that knows no list of a job's pods


def logs(
    job: Annotated[str | None, JOB] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Only of the pod of this number: masters first, then workers.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", help="Only of a pod of this component of the job, such as worker.")
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, help="Number of the pod in its component (default: 0).")
    ] = None,
    pod: Annotated[str | None, typer.Option("--pod", help="Only of the pod of this name.")] = None,
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Container of the pod (default: its only one).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what the pods print.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Only so many lines of the end, of each pod.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what was printed since then: 90s, 10m, 2h ago, or a time.")
    ] = None,
    since_seconds: Annotated[int | None, typer.Option("--since-seconds", min=1, help="The same, in seconds.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    of_hub: Annotated[
        bool, typer.Option("--hub", help="What the hub's own processes log, from the data directory of this machine.")
    ] = False,
    about: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="With --hub: only lines about this job, or its uid.")
    ] = None,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="ID", help="With --hub: only of this request, by its header Audit-ID."),
    ] = None,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the container before its restart.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the logs of a job's pods, or of the hub.

    All pods, unless one is named. Of several pods, each line begins with the name of its pod. With --follow: until the
    job is over, also of pods that come later. The log of a job that is over stays for as long as its member keeps the
    pods. With --hub: what the processes of the hub log, merged by time.
    """
    from fleet.amc.terminal import clean
    from fleet.cli import joblist
    from fleet.cli.flows import EXACT
    from fleet.cli.hub import connect
    from fleet.cli.hublogs import LineFilter
    from fleet.cli.jobselection import job_in
    from fleet.cli.when import moment
    from fleet.client.logs import logs as operation

    if of_hub:
        given_too = {"JOB (use --job)": job, "--rank": rank, "--role": role, "--pod": pod, "--container": container}
        wrong = [name for name, value in given_too.items() if value is not None]
        if wrong:
            raise Failure(f"{wrong[0]} does not go with --hub")
        _of_hub(data_dir, LineFilter(about or "", namespace or "", request or ""), since, follow)
        return
    if about is not None or request is not None:
        raise Failure(f"{'--job' if about is not None else '--request'} goes with --hub alone")
    if job is None:
        raise Failure("names no job: give its NAME, or --hub for the log of the hub itself")
    if previous and follow:
        raise Failure("--previous is of a container that has ended: it does not go with --follow")
    choices = [which for which in (rank, role, index, pod) if which is not None]
    if rank is not None and len(choices) > 1:
        raise Failure("--rank names a pod by itself: without --pod, --role and --index")
    at = moment(since, time.time()) if since else None
    hub = connect(kubeconfig, data_dir, context)
    row = joblist.job_named(hub, namespace or hub.namespace, job)
    one = job_in(hub, row)
    several = not choices and (row["pods"] > 1 or len(_names(one)) > 1)
    lines = operation(
        hub.session,
        one,
        rank=rank,
        role=role,
        index=index,
        pod=pod,
        container=container,
        follow=follow,
        tail=tail,
        since_s=since_seconds,
        since=datetime.fromisoformat(at) if at else None,
        timestamps=timestamps,
        previous=previous,
    )
    for line in hub.items(lines):
        text = f"[{clean(line.pod)}] {line.text}\n" if several else f"{line.text}\n"
        sys.stdout.buffer.write(text.encode(errors=EXACT))
        sys.stdout.buffer.flush()


def _of_hub(data_dir: Path | None, selection: LineFilter, since: str | None, follow: bool) -> None:
    from dataclasses import replace

    from fleet.cli.datadir import locate
    from fleet.cli.hublogs import print_all, show
    from fleet.cli.when import moment
    from fleet.values.times import seconds

    if since:
        selection = replace(selection, since=seconds(moment(since, time.time())) or 0.0)
    data = locate(data_dir)
    data.need()
    print_all(show(data, selection, follow))


def _names(job: HubJob) -> list[str]:
    """The names of the job's pods by rank; none where this user, or an older hub, does not list them."""
    from fleet.cli.hub import HubRefusal
    from fleet.cli.jobpods import pods_of

    try:
        return [pod.name for pod in pods_of(job)[0]]
    except HubRefusal as refused:
        if refused.status not in (*NOT_LISTED, 400):
            raise
        return []  # the log says then what lacks
