"""`fleet hold queue/NAME` and `fleet release queue/NAME`: a queue of which nothing starts, and its jobs again.

The field is `spec.stopPolicy` of the Queue, as in Kueue; the hub holds the jobs. Needs `patch` on queues.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from fleet.bindings.stopping import DRAIN, HOLD, NONE
from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.cli.jobselection import HubJob

QUEUES = f"/apis/{QUEUE}/v1alpha1/namespaces/{QUEUE_NAMESPACE}/queues"
PREFIXES = ("queue/", "queues/")
_DONE = {HOLD: "held", DRAIN: "held, and its jobs that run are evicted", NONE: "released"}


def each_with_queues(
    hub: HubClient,
    namespace: str,
    names: Sequence[str],
    selector: str | None,
    act: Callable[[HubJob], str],
    policy: str,
) -> None:
    """`each`, where a name may be one of a queue, which gets the stop policy."""
    from fleet.cli.jobselection import each

    queues = [name for name in names if name.startswith(PREFIXES)]
    jobs = [name for name in names if name not in queues]
    failed = False
    for queue in dict.fromkeys(queues):
        try:
            print(_stopped(hub, queue.partition("/")[2], policy))
        except Failure as failure:
            failed = True
            print(f"fleet: {failure}", file=sys.stderr)
    if jobs or selector or not queues:
        each(hub, namespace, jobs, selector, act)
    if failed:
        raise typer.Exit(1)


def _stopped(hub: HubClient, queue: str, policy: str) -> str:
    paths = {
        one["metadata"]["name"]: str((one["metadata"].get("annotations") or {}).get(ANNOTATION_QUOTA_FULLNAME, ""))
        for one in hub.list(QUEUES)
    }
    name = queue_named(paths, queue)
    change = {"spec": {"stopPolicy": policy}}
    hub.request("PATCH", f"{QUEUES}/{name}", change, content_type="application/merge-patch+json")
    return f"queue/{paths[name]} {_DONE[policy]}"


def queue_named(paths: dict[str, str], queue: str) -> str:
    """The Queue that is meant: by its full path, by its name, or by the end of its path. `paths`: by name of the Queue.
    Raises Failure."""
    exact = [name for name, path in paths.items() if queue in (name, path)]
    found = exact or [name for name, path in paths.items() if queue and path.endswith(f"/{queue}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(f'"{queue}" is the end of several queues: {", ".join(sorted(paths[name] for name in found))}')
    raise Failure(f'no queue "{queue}"{suggestion(queue, paths.values())} (fleet queues lists them)')
