"""`fleet queues`: the quota tree with its usage, and the waiting jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.cli.options import (
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    QueueOption,
    WatchOption,
)

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

QUEUES = "/fleet/v1/queues"
MAX_JOBS, GPU = "kube-queue/max-jobs", "nvidia.com/gpu"
UNLIMITED = "unlimited"
PART = "queues that your namespaces have no part in are left out"
LIST = lists.Listing(
    columns=("queue", "waiting", "active", "gpus_used", "min_gpus", "max_gpus"),
    wide=(
        "queue",
        "stop",
        "waiting",
        "active",
        "max_jobs",
        "gpus_used",
        "min_gpus",
        "fair_gpus",
        "max_gpus",
        "name",
        "namespaces",
    ),
    sorts={
        "queue": lambda line: line["queue"],
        "waiting": lambda line: line["waiting"],
        "active": lambda line: line["active"],
        "used": lambda line: int(line["gpus_used"]),
    },
    word=lambda line: str(line["queue"]),
    key=("queue",),
    down=("waiting", "active", "used"),
    row_of=lambda line: line | {"waiting": f"{line['waiting']} (held)"} if line["held_by"] else line,
)


def queues(
    queue: QueueOption = None,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the queues: limits, usage, waiting jobs.

    Waiting jobs of a queue that starts none are marked: (held).
    """
    from fleet.cli.hub import connect

    how = lists.options(LIST, output, sort, watch, color)
    hub = connect(kubeconfig, data_dir, context)

    def fetch() -> Iterator[list[lists.Record]]:
        yield records(hub) if queue is None else below(records(hub), queue)

    lists.show(how, fetch, nothing="No queues: apply an ElasticQuotaTree in kube-system")


def records(hub: HubClient) -> list[lists.Record]:
    """The nodes of the quota tree that the user may see. Raises Failure."""
    found = hub.request("GET", QUEUES).body
    if found["partial"]:
        hub.note(PART)
    return [record(node) for node in found["items"]]


def below(nodes: list[lists.Record], queue: str) -> list[lists.Record]:
    """A queue and those below it. Raises Failure."""
    found = [node for node in nodes if f"{node['queue']}/".startswith(f"{queue.rstrip('/')}/")]
    if not found:
        near = suggestion(queue, (node["queue"] for node in nodes))
        raise Failure(f'no queue "{queue}"{near} (fleet queues lists them)')
    return found


def record(node: dict[str, Any]) -> dict[str, Any]:
    """One node of the tree as a line, from what /fleet/v1 says of it."""
    return {
        "queue": node["path"],
        "name": node["name"],
        "namespaces": ",".join(node["namespaces"]),
        "policy": node["policy"],
        "stop": node["stop"],
        "held_by": node["held_by"],
        "waiting": node["waiting"],
        "active": node["running"],
        "max_jobs": node["max"].get(MAX_JOBS, UNLIMITED),
        "gpus_used": node["used"].get(GPU, "0"),
        "min_gpus": node["min"].get(GPU, "0"),
        "fair_gpus": node.get("fairShare", {}).get(GPU, "-"),
        "max_gpus": node["max"].get(GPU, UNLIMITED),
        "used": node["used"],
        "min": node["min"],
        "max": node["max"],
        "fair_share": node.get("fairShare", {}),
        "borrowed": node.get("borrowed", {}),
        "lenders": node.get("lenders", []),
    }
