"""`fleet top`: GPUs of members and queues, what the pods of jobs use, or the jobs that use their GPUs little."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.amc.terminal import CLEAR, own
from fleet.cli import completers
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.cli.jobpods import JobPod

MEMBERS = (
    "member",
    "state",
    "gpu",
    "gpus",
    "used",
    "free",
    "used_%",
    "cordoned",
    "cpus_free",
    "memory_free",
    "running",
)
MODELS = ("model", "gpus", "used", "free", "used_%", "fragmented", "cordoned", "members")
QUEUES = ("queue", "used", "min", "max", "used_%", "waiting", "running")
PODS = (
    "pod",
    "member",
    "node",
    "phase",
    "gpus",
    "gpu_%",
    "gpu_memory",
    "gpu_watts",
    "cpu",
    "cpu_request",
    "memory",
    "memory_request",
)
IDLE = ("job", "queue", "user", "member", "gpus", "gpu_%", "since")
CLUSTERS = "/fleet/v1/clusters"
BELOWS = ("1", "5", "10", "20", "50")  # percent
EVERY_S = 2.0
GPU = "nvidia.com/gpu"
PARTS = ("allocated", "free", "cordoned")  # of the GPUs of one model in a member
OTHERS = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
Record = dict[str, Any]


class TopKey(StrEnum):
    member = "member"
    model = "model"
    queue = "queue"


SUMS = {TopKey.member: (MEMBERS, "No members"), TopKey.model: (MODELS, "No GPUs"), TopKey.queue: (QUEUES, "No queues")}


def top(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB]...",
            help="Show the pods of these jobs, instead of the members.",
            autocompletion=completers.jobs,
        ),
    ] = None,
    by: Annotated[TopKey, typer.Option(help="Sum up the GPUs by member, by their model, or by queue.")] = TopKey.member,
    idle: Annotated[bool, typer.Option("--idle", help="Show the jobs that use their GPUs little.")] = False,
    below: Annotated[
        str, typer.Option(metavar="PERCENT", help="With --idle, use of the GPUs: 1%, 5%, 10%, 20% or 50%.")
    ] = "5%",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every two seconds.")] = False,
    output: OutputOption = Output.table,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show GPUs of members, or what a job uses.

    Of a member or model: GPUs used and free. GPUs of nodes that take no pods are CORDONED, and not in the share. Of a
    queue: GPUs used of its max. CPU and memory of pods are those that metrics.k8s.io of their member tells. A member
    without it tells none. Use, memory and power of GPUs are those of the source that spec.metrics of the Cluster names.
    With --idle: jobs of all namespaces, or of the one named, with the longest idle first. SINCE is when their use went
    below the limit.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    level = below.removesuffix("%")
    if level not in BELOWS:
        raise Failure(f"--below {below}: one of 1%, 5%, 10%, 20% and 50%")
    if idle and jobs:
        raise Failure("--idle names the jobs itself: leave the names out")
    hub = connect(kubeconfig, data_dir, context)
    columns, nothing = (IDLE, "No idle jobs") if idle else (PODS, "No pods") if jobs else SUMS[by]
    while True:
        notes: list[str] = []
        if idle:
            records, notes = _idle(hub, namespace, level)
        elif jobs:
            records, notes = _pods(hub, namespace or hub.namespace, jobs)
        elif by is TopKey.model:
            records = of_models(hub.request("GET", CLUSTERS).body["items"])
        elif by is TopKey.queue:
            records = _queues(hub)
        else:
            records = _members(hub)
        if watch and sys.stdout.isatty():
            own(sys.stdout).write(CLEAR)
        show(records, columns, output, nothing=nothing)
        for note in notes:
            print(f"fleet: {note}", file=sys.stderr)
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(EVERY_S)


def _members(hub: HubClient) -> list[Record]:
    """A record for each member and model of GPU, which is the name of its resource; the sum where there are several."""
    records = [record for member in hub.request("GET", CLUSTERS).body["items"] for record in members(member)]
    models = sorted({record["gpu"] for record in records if record["gpus"]})
    sums = []
    for model in models:
        same = [record for record in records if record["gpu"] == model]
        if len(same) > 1:
            summed = {part: sum(one[part] for one in same) for part in ("used", "free", "cordoned", "running")}
            sums.append({"member": "all", "gpu": model, **_counts(**summed)})
    return records + sums


def members(member: Record) -> list[Record]:
    """The records of one member, of what /fleet/v1 says of it."""
    room, use, free = member["allocatable"], member["allocated"], member["free"]
    models = sorted(name for name in room if name not in OTHERS and "gpu" in name.lower()) or [GPU]
    state = "ready" if member["ready"] else "not ready"
    common = {
        "member": member["name"],
        "state": state,
        "cpus_free": free.get("cpu", "0"),
        "memory_free": free.get("memory", "0"),
        "running": sum(member["jobs"].values()),
    }
    if len(models) == 1 and member["gpus"]:  # counted node by node
        used, free, cordoned = (sum(row[part] for row in member["gpus"]) for part in PARTS)
        return [{**common, "gpu": models[0], **_counts(used, free, cordoned)}]
    records = []
    for model in models:
        gpus = int(room.get(model, "0"))
        used = min(gpus, int(use.get(model, "0")))  # pods on nodes that are gone are counted, too
        records.append({**common, "gpu": model, **_counts(used, gpus - used)})
    return records


def of_models(members: list[Record]) -> list[Record]:
    """A record for each model of GPU in the fleet, as the labels of nodes name it."""
    found: dict[str, list[tuple[str, Record]]] = {}
    for member in members:
        for row in member["gpus"]:
            found.setdefault(row["model"], []).append((member["name"], row))
    return [_model(model, rows) for model, rows in sorted(found.items())]


def _model(model: str, rows: list[tuple[str, Record]]) -> Record:
    """`gpus`: those on nodes that take pods, and those that are cordoned."""
    used, free, cordoned, fragmented = (sum(row[part] for _, row in rows) for part in (*PARTS, "fragmented"))
    return {
        "model": model or "unknown",
        **_counts(used, free, cordoned),
        "fragmented": fragmented,
        "members": ",".join(name for name, _ in rows),
    }


def _counts(used: int, free: int, cordoned: int = 0, **others: int) -> Record:
    """`gpus`: those on nodes that take pods, and those on nodes that take none, of which the share knows nothing."""
    share = {"used_%": f"{100 * used // (used + free)}%" if used + free else ""}
    return {"gpus": used + free + cordoned, "used": used, "free": free, **share, "cordoned": cordoned, **others}


def _queues(hub: HubClient) -> list[Record]:
    """A record for each queue; the share of its max, "" where that is unlimited."""
    from fleet.cli.queues import records

    return [
        {
            "queue": queue["queue"],
            "used": int(queue["gpus_used"]),
            "min": queue["min_gpus"],
            "max": queue["max_gpus"],
            "used_%": _share(queue["gpus_used"], queue["max_gpus"]),
            "waiting": queue["waiting"],
            "running": queue["active"],
        }
        for queue in records(hub)
    ]


def _share(used: str, limit: str) -> str:
    return f"{100 * int(used) // int(limit)}%" if limit.isdigit() and int(limit) else ""


def _pods(hub: HubClient, namespace: str, names: list[str]) -> tuple[list[Record], list[str]]:
    """A record for each pod of the jobs; and the members that tell no usage."""
    from fleet.cli.jobpods import pods_of
    from fleet.cli.jobselection import job_of

    records: list[Record] = []
    notes: dict[str, None] = {}
    for name in names:
        found, silent = pods_of(job_of(hub, namespace, name), usage=True)
        notes |= dict.fromkeys(silent)
        records += [_pod(pod) for pod in found]
    return records, list(notes)


def _idle(hub: HubClient, namespace: str | None, level: str) -> tuple[list[Record], list[str]]:
    """A record for each job; and the members that tell no figures."""
    from urllib.parse import urlencode

    asked = {"below": level, **({"namespace": namespace} if namespace else {})}
    body = hub.request("GET", f"/fleet/v1/gpus?{urlencode(asked)}").body
    notes = [f"{one['name']} {one['silent']}" for one in body["members"] or () if one["silent"]]
    if body["at"] is None:
        notes.append("no member tells GPU figures: spec.metrics of its Cluster names the source")
    if body["left"]:
        notes.append(f"{body['left']} jobs more are not shown")
    records = [
        {
            **job,
            "job": f"{job['namespace']}/{job['name']}",
            "queue": job["queue"] or "",
            "gpu_%": _percent(job["utilization"]),
        }
        for job in body["jobs"]
    ]
    return records, notes


def _pod(pod: JobPod) -> Record:
    from fleet.amc.top import mebibytes
    from fleet.values.quantity import quantity

    gpus = {model: amount for model, amount in pod.requests.items() if model not in OTHERS and "gpu" in model}
    usage, gpu = pod.usage or {}, pod.gpu or {}
    return {
        "pod": pod.name,
        "member": pod.member,
        "node": pod.node,
        "phase": pod.phase,
        "gpus": ",".join(amount if model == GPU else f"{amount} {model}" for model, amount in gpus.items()),
        "gpu_%": _percent(gpu.get("utilization")),
        "gpu_memory": _gibibytes(gpu.get("used_bytes")),
        "gpu_watts": "" if gpu.get("power_watts") is None else f"{gpu['power_watts']:.0f}",
        "cpu": usage.get("cpu", ""),
        "cpu_request": pod.requests.get("cpu", ""),
        "memory": mebibytes(quantity(usage["memory"], "memory")) if "memory" in usage else "",
        "memory_request": pod.requests.get("memory", ""),
        "requests": pod.requests,
        "usage": pod.usage,
        "gpu": pod.gpu,
    }


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.0f}%"


def _gibibytes(amount: float | None) -> str:
    return "" if amount is None else f"{amount / (1 << 30):.1f}Gi"
