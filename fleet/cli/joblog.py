"""`fleet logs`: what a pod of a job prints, from whatever member the job is in."""

from __future__ import annotations

import sys
from typing import Annotated
from urllib.parse import urlencode

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption


def logs(
    job: Annotated[str, typer.Argument(help="NAME, or KIND/NAME when several kinds have a job of that name.")],
    role: Annotated[
        str | None, typer.Option("--role", help="Component of the job, such as worker (default: its first).")
    ] = None,
    index: Annotated[int | None, typer.Option("--index", min=0, help="Number of the pod in its component.")] = None,
    pod: Annotated[str | None, typer.Option("--pod", help="Name of the pod, instead of both.")] = None,
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Container of the pod (default: its only one).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what the pod prints.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", min=0, help="Only so many lines of the end.")] = None,
    since: Annotated[
        int | None, typer.Option("--since-seconds", min=1, help="Only what was printed so many seconds ago or later.")
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    previous: Annotated[bool, typer.Option("--previous", help="Of the container before its restart.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the log of a pod of a job."""
    from fleet.amc.client import NoAnswer, NotGiven
    from fleet.cli.chosen import job_of
    from fleet.cli.hub import Refused, connect

    hub = connect(kubeconfig, data_dir, context)
    one = job_of(hub, namespace or hub.namespace, job)
    asked = {
        "role": role, "index": index, "pod": pod, "container": container, "follow": follow, "tailLines": tail,
        "sinceSeconds": since, "timestamps": timestamps, "previous": previous,
    }  # fmt: skip
    given = {name: _text(value) for name, value in asked.items() if value is not None and value is not False}
    try:
        for piece in hub.client.stream(f"{one.path}/log?{urlencode(given)}"):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    except NotGiven as refused:
        raise Refused(str(refused), refused.answer.status) from refused
    except NoAnswer as error:
        raise Failure(f"the log breaks off ({hub.source}): {error}") from error


def _text(value: object) -> str:
    return "true" if value is True else str(value)
