"""`fleet clusters`: the members and their room."""

from __future__ import annotations

from typing import Any

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

COLUMNS = ("name", "ready", "version", "nodes", "gpus", "gpus_used", "taints", "endpoint", "message")
GPU = "nvidia.com/gpu"


def clusters(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the members: ready or why not, nodes, GPUs."""
    from fleet.amc.get import CLUSTERS
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    records = [record(cluster) for cluster in connect(kubeconfig, data_dir, context).list(CLUSTERS)]
    show(records, COLUMNS, output, nothing="No members: fleet join NAME --kubeconfig FILE")


def record(cluster: dict[str, Any]) -> dict[str, Any]:
    """One member as a line."""
    from fleet.model.matching import taints_text

    status = cluster.get("status") or {}
    ready: dict[str, Any] = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), {})
    nodes, resources = status.get("nodeSummary") or {}, status.get("resourceSummary") or {}
    is_ready = ready.get("status") == "True"
    return {
        "name": cluster["metadata"]["name"],
        "ready": is_ready,
        "version": status.get("kubernetesVersion"),
        "nodes": f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
        "gpus": (resources.get("allocatable") or {}).get(GPU, "0"),
        "gpus_used": (resources.get("allocated") or {}).get(GPU, "0"),
        "taints": taints_text((cluster.get("spec") or {}).get("taints")),
        "endpoint": (cluster.get("spec") or {}).get("apiEndpoint"),
        "message": "" if is_ready else ready.get("message") or ready.get("reason") or "not looked at yet",
    }
