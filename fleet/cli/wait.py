"""`fleet wait`: until jobs have started, or are over."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import TimeIsOver
from fleet.cli.jobselection import HubJob, JobsArgument, jobs_of
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, SelectorOption
from fleet.cli.when import timeout_option

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

NAMES_MOST = 100  # of one watch; for more jobs all of the namespace are watched
OVER = ("Succeeded", "Failed")


class WaitGoal(StrEnum):
    started = "started"
    finished = "finished"
    deleted = "deleted"


STATES: Mapping[WaitGoal, tuple[str, ...]] = {
    WaitGoal.started: ("Running", *OVER),
    WaitGoal.finished: OVER,
    WaitGoal.deleted: ("Deleted",),
}


def wait(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    until: Annotated[WaitGoal, typer.Option("--for", help="What to wait for.")] = WaitGoal.finished,
    timeout: Annotated[float, timeout_option("at most; 0: without a limit", "0")] = 0.0,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Wait until jobs are finished, have started, or are deleted.

    A job that fails is not finished while its policy has it tried again.

    The exit status is 0 where all have come there, 1 where a job failed or was deleted before, and 124 where the time
    was over.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    where = namespace or hub.namespace
    rest: dict[tuple[str, str], HubJob] = {}
    failed = False
    for job in jobs_of(hub, where, jobs or (), selector):
        if isinstance(job, HubJob):
            rest[job.kind, job.name] = job
            continue
        failed = failed or until is not WaitGoal.deleted
        print(f"fleet: {job}", file=sys.stderr)
    for job, state, why in _standings(hub, where, rest, timeout or None) if rest else ():
        done = state in STATES[until]
        if done:
            print(f"{job} {state.lower()}" + (f": {why}" if state == "Failed" and why else ""))
            failed = failed or (state == "Failed" and until is not WaitGoal.deleted)
        elif state == "Deleted":
            print(f"fleet: {job} was deleted", file=sys.stderr)
            failed = True
        else:
            print(f"{job}: {state}" + (f": {why}" if why else ""), file=sys.stderr)
        if done or state == "Deleted":
            del rest[job.kind, job.name]
        if not rest:
            break
    if rest:
        raise TimeIsOver(f"not {until} after {timeout:g} s: {', '.join(map(str, rest.values()))}")
    if failed:
        raise typer.Exit(1)


def _standings(
    hub: HubClient, namespace: str, jobs: Mapping[tuple[str, str], HubJob], timeout: float | None
) -> Iterator[tuple[HubJob, str, str]]:
    """The state and the reason of each of the jobs, and again when one has changed."""
    from fleet.client.jobvalues import Job as Value
    from fleet.client.jobvalues import JobChange
    from fleet.client.jobwatch import changes

    names = sorted({job.name for job in jobs.values()})
    query = {
        "namespace": namespace,
        "kind": sorted({job.kind for job in jobs.values()}),
        "name": names if len(names) <= NAMES_MOST else None,
    }
    listed = JobChange("LISTED", Value())
    standings: dict[HubJob, tuple[str, str]] = {}
    for change in hub.items(changes(hub.session, query, timeout=timeout, listed=listed)):
        if change is listed:  # what was deleted since it was named is not among them
            yield from [(job, "Deleted", "") for job in jobs.values() if job not in standings]
            continue
        job, now = jobs.get((change.job.kind, change.job.name)), change.job
        if job is None:
            continue
        reason = now.reason.text if now.reason is not None else ""
        state = f"{now.state}, starts anew" if now.starts_anew else now.state
        stands = ("Deleted", "") if change.type == "DELETED" else (state, reason)
        if standings.get(job) != stands:
            standings[job] = stands
            yield job, *stands
