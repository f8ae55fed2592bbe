"""The pods of a job, as the hub's relay lists them, and the one that a command is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.cli.jobselection import HubJob

RankOption = Annotated[
    int | None,
    typer.Option("--rank", min=0, help="Number of the pod in the job: masters first, then workers (default: 0)."),
]
PodOption = Annotated[str | None, typer.Option("--pod", help="Name of the pod, instead.")]
ContainerOption = Annotated[
    str | None, typer.Option("--container", "-c", help="Container of the pod (default: its first).")
]
NAMED_MOST = 10


@dataclass(frozen=True)
class JobPod:
    """One pod of a job. `requests` and `usage` (None: not told) are quantities by resource; `gpu` (None: not told) is
    the sum over its GPUs: utilization from 0 to 1, bytes and watts."""

    name: str
    member: str
    role: str
    rank: int
    phase: str
    node: str
    containers: list[str]
    requests: dict[str, str]
    usage: dict[str, str] | None
    gpu: dict[str, Any] | None = None

    @property
    def on_hub(self) -> str:
        """The name that no pod of another member has."""
        return self.name if "." in self.member else f"{self.name}.{self.member}"


def pods_of(job: HubJob, *, usage: bool = False) -> tuple[list[JobPod], list[str]]:
    """All pods of the job by rank; and for each member that does not tell what they use, why. Raises Failure."""
    body = job.hub.request("GET", f"{job.path}/pods{'?usage=true' if usage else ''}").body
    silent = [*body["silent"].items(), *body.get("silentGpus", {}).items()]
    known = [one.name for one in fields(JobPod)]
    found = [JobPod(**{name: item[name] for name in known if name in item}) for item in body["items"]]
    return found, [f"{member} {why}" for member, why in silent]


def pod_of(job: HubJob, rank: int | None, pod: str | None) -> JobPod:
    """The pod of the rank or of the name; the first when neither is given. Raises Failure, which names pods."""
    if rank is not None and pod is not None:
        raise Failure("--rank and --pod both name a pod: give one")
    pods, _ = pods_of(job)
    if not pods:
        raise Failure(f"{job} has no pods yet, or none any more")
    chosen = [one for one in pods if (one.name == pod if pod is not None else one.rank == (rank or 0))]
    if not chosen:
        names = ", ".join(f"{one.name} (rank {one.rank})" for one in pods[:NAMED_MOST])
        more = f" and {len(pods) - NAMED_MOST} more" if len(pods) > NAMED_MOST else ""
        what = f'no pod "{pod}"' if pod is not None else f"no pod of rank {rank}"
        raise Failure(f"{job} has {what}: its pods are {names}{more}")
    return chosen[0]


@contextmanager
def refusals() -> Iterator[None]:
    """What a stream is refused, as Failure."""
    from fleet.amc.client import NoAnswer
    from fleet.amc.get import CommandRefusal

    try:
        yield
    except (NoAnswer, CommandRefusal) as error:
        raise Failure(str(error)) from error
