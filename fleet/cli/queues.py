"""`fleet queues`: the quota tree with its usage, and the waiting jobs."""

from __future__ import annotations

import sys
from typing import Any

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

COLUMNS = (
    "queue", "namespaces", "waiting", "active", "max_jobs", "gpus_used", "min_gpus", "max_gpus", "name",
)  # fmt: skip
QUEUES = "/fleet/v1/queues"
MAX_JOBS, GPU = "kube-queue/max-jobs", "nvidia.com/gpu"
UNLIMITED = "unlimited"


def queues(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the queues: limits, usage, waiting jobs."""
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    found = connect(kubeconfig, data_dir, context).request("GET", QUEUES).body
    if found["partial"]:
        print("queues that your namespaces have no part in are left out", file=sys.stderr)
    records = [record(node) for node in found["items"]]
    show(records, COLUMNS, output, nothing="No queues: apply an ElasticQuotaTree in kube-system")


def record(node: dict[str, Any]) -> dict[str, Any]:
    """One node of the tree as a line, from what /fleet/v1 says of it."""
    return {
        "queue": node["path"],
        "name": node["name"],
        "namespaces": ",".join(node["namespaces"]),
        "policy": node["policy"],
        "waiting": node["waiting"],
        "active": node["running"],
        "max_jobs": node["max"].get(MAX_JOBS, UNLIMITED),
        "gpus_used": node["used"].get(GPU, "0"),
        "min_gpus": node["min"].get(GPU, "0"),
        "max_gpus": node["max"].get(GPU, UNLIMITED),
        "used": node["used"],
        "min": node["min"],
        "max": node["max"],
    }
