"""The jobs that a command is about: named one by one, or chosen by their labels."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import completers
from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.amc.discovery import Resource
    from fleet.cli.hub import HubClient

JobsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB]...",
        help="NAME, or KIND[.GROUP]/NAME when several kinds have a job of that name.",
        autocompletion=completers.jobs,
    ),
]
TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB|queue/NAME]...",
        help="NAME, KIND[.GROUP]/NAME or queue/NAME.",
        autocompletion=completers.jobs_or_queues,
    ),
]


@dataclass(frozen=True)
class HubJob:
    """One job on the hub. `path`: of its object."""

    hub: HubClient
    namespace: str
    name: str
    kind: str
    api_version: str
    path: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


def job_of(hub: HubClient, namespace: str, text: str) -> HubJob:
    """The one job of this name. Raises Failure."""
    from fleet.cli import joblist

    return job_in(hub, joblist.job_named(hub, namespace, text))


def jobs_of(hub: HubClient, namespace: str, names: Sequence[str], selector: str | None) -> Iterator[HubJob | Failure]:
    """Each job that was named, or all with these labels. A name that names no job is a Failure in its place."""
    from fleet.cli import joblist
    from fleet.cli.hub import HubRefusal

    if bool(names) == bool(selector):
        raise Failure("name the jobs, or choose them by their labels with -l" + "; not both" * bool(names))
    if selector:
        found, _ = joblist.listed(hub, namespace, labelSelector=selector)
        if not found:
            raise Failure(f"no job in namespace {namespace} has the labels {selector}")
        yield from (job_in(hub, one) for one in found)
        return
    for name in dict.fromkeys(names):
        try:
            yield job_of(hub, namespace, name)
        except HubRefusal as refused:
            if refused.status not in (403, 404, 422):
                raise
            yield refused
        except Failure as failure:
            yield failure


def each(
    hub: HubClient, namespace: str, names: Sequence[str], selector: str | None, act: Callable[[HubJob], str]
) -> None:
    """Print what `act` says of each job. A job that is refused does not stop the others; the exit status is 1 then."""
    from fleet.cli.hub import HubRefusal

    failed = False
    for job in jobs_of(hub, namespace, names, selector):
        try:
            if isinstance(job, Failure):
                raise job
            print(act(job))
        except Failure as failure:
            if isinstance(job, HubJob) and not isinstance(failure, HubRefusal):
                raise  # the hub answers no request any more
            failed = True
            print(f"fleet: {failure}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def job_in(hub: HubClient, row: dict[str, Any]) -> HubJob:
    kind, namespace, name = row["kind"], row["namespace"], row["name"]
    resource = _resource(hub, kind)
    group = f"{resource.group}/" if resource.group else ""
    return HubJob(hub, namespace, name, kind, group + resource.version, resource.path(namespace, name))


@functools.lru_cache(maxsize=32)
def _resource(hub: HubClient, kind: str) -> Resource:
    from fleet.amc.discovery import resolve

    found = resolve(kind.lower(), _known(hub))
    if found is None:
        raise Failure(f"the hub does not serve {kind}")
    return found


@functools.lru_cache(maxsize=1)
def _known(hub: HubClient) -> list[Resource]:
    from fleet.amc.discovery import discover

    return discover(hub.client)
