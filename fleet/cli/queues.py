"""`fleet queues`: the quota tree with what waits and runs in it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fleet.cli.options import DataDirOption, KubeconfigOption, Output, OutputOption

COLUMNS = ("queue", "namespaces", "waiting", "active", "max_jobs", "max_gpus", "name")
QUEUE_API = "/apis/scheduling.x-k8s.io/v1alpha1"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
FULL_NAME = "kube-queue/quota-fullname"
UNLIMITED = "unlimited"


def queues(
    output: OutputOption = Output.table, kubeconfig: KubeconfigOption = None, data_dir: DataDirOption = None
) -> None:
    """List the queues: limits, how many jobs wait and run."""
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    hub = connect(kubeconfig, data_dir)
    names = {
        (queue["metadata"].get("annotations") or {}).get(FULL_NAME, ""): queue["metadata"]["name"]
        for queue in hub.list(f"{QUEUE_API}/namespaces/kube-queue/queues")
    }
    records = records_of(hub.list(TREES), names, hub.list(f"{QUEUE_API}/queueunits"))
    show(records, COLUMNS, output, nothing="No queues: apply an ElasticQuotaTree in kube-system")


def records_of(trees: list[dict[str, Any]], names: dict[str, str], units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record a node of the tree, parents first. `names`: full name -> name of the Queue object."""
    waiting: Counter[str] = Counter()
    active: Counter[str] = Counter()
    for unit in units:
        queue, phase = (unit.get("spec") or {}).get("queue", ""), (unit.get("status") or {}).get("phase", "")
        if phase in ("", "Enqueued", "TimeoutBackoff"):
            waiting[queue] += 1
        elif phase in ("Reserved", "Dequeued", "Running"):
            active[queue] += 1
    records: list[dict[str, Any]] = []

    def visit(node: dict[str, Any], parent: str) -> tuple[int, int]:
        path = f"{parent}/{node.get('name', '')}" if parent else str(node.get("name", ""))
        limits = node.get("max") or {}
        name = names.get(path, "")
        record = {
            "queue": path, "name": name, "namespaces": ",".join(node.get("namespaces") or ()),
            "max_jobs": limits.get("kube-queue/max-jobs", UNLIMITED),
            "max_gpus": limits.get("nvidia.com/gpu", UNLIMITED),
            "max": limits, "min": node.get("min") or {},
        }  # fmt: skip
        records.append(record)
        counts = [(waiting[name], active[name])] + [visit(child, path) for child in node.get("children") or ()]
        record["waiting"], record["active"] = sum(w for w, _ in counts), sum(a for _, a in counts)
        return record["waiting"], record["active"]

    for tree in trees:
        root = (tree.get("spec") or {}).get("root")
        if isinstance(root, dict):
            visit(root, "")
    return records
