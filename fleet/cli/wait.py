"""`fleet wait`: until jobs have started, or are over."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.chosen import Job, JobsArgument, jobs_of
from fleet.cli.failure import TimeIsOver
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, SelectorOption

if TYPE_CHECKING:
    from fleet.cli.hub import Hub

POLL_S = 1.0
OVER = ("Succeeded", "Failed")


class For(StrEnum):
    started = "started"
    finished = "finished"
    deleted = "deleted"


STATES: Mapping[For, tuple[str, ...]] = {For.started: ("Running", *OVER), For.finished: OVER, For.deleted: ("Deleted",)}


def wait(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    until: Annotated[For, typer.Option("--for", help="What to wait for.")] = For.finished,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most; 0: without a limit.")] = 0.0,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Wait until jobs are finished, have started, or are deleted.

    The exit status is 0 where all have come there, 1 where a job failed or was deleted before, and 124 where the time
    was over.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    left: list[Job] = []
    failed = False
    for job in jobs_of(hub, namespace or hub.namespace, jobs or (), selector):
        if isinstance(job, Job):
            left.append(job)
            continue
        failed = failed or until is not For.deleted
        print(f"fleet: {job}", file=sys.stderr)
    deadline = time.monotonic() + timeout if timeout else None
    shown: dict[Job, str] = {}
    while left:
        stands = {job: _stands(hub, job) for job in left}
        for job, (state, why) in stands.items():
            if state in STATES[until]:
                print(f"{job} {state.lower()}" + (f": {why}" if state == "Failed" and why else ""))
                failed = failed or (state == "Failed" and until is not For.deleted)
            elif state == "Deleted":
                print(f"fleet: {job} was deleted", file=sys.stderr)
                failed = True
            else:
                told = f"{job}: {state}" + (f": {why}" if why else "")
                if shown.get(job) != told:
                    shown[job] = told
                    print(told, file=sys.stderr)
        left = [job for job, (state, _) in stands.items() if state not in (*STATES[until], "Deleted")]
        if left and deadline is not None and time.monotonic() > deadline:
            raise TimeIsOver(f"not {until} after {timeout:g} s: {', '.join(map(str, left))}")
        if left:
            time.sleep(POLL_S)
    if failed:
        raise typer.Exit(1)


def _stands(hub: Hub, job: Job) -> tuple[str, str]:
    """The state of a job, and its reason."""
    found: dict[str, Any] | None = hub.find(f"/fleet/v1/jobs/{job.namespace}/{job.kind}/{job.name}")
    if found is None:
        return "Deleted", ""
    return str(found["state"]), str((found["reason"] or {}).get("text") or "")
