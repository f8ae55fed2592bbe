"""`fleet clusters`: the members and their room."""

from __future__ import annotations

from typing import Any

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption

COLUMNS = ("name", "state", "mode", "version", "nodes", "gpus", "gpus_used", "taints", "endpoint", "message")
GPU = "nvidia.com/gpu"


def clusters(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the members: ready, cordoned or why not, nodes, GPUs."""
    from fleet.amc.get import CLUSTERS
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    records = [record(cluster) for cluster in connect(kubeconfig, data_dir, context).list(CLUSTERS)]
    show(records, COLUMNS, output, nothing="No members: fleet join NAME --kubeconfig FILE")


def record(cluster: dict[str, Any]) -> dict[str, Any]:
    """One member as a line."""
    from fleet.model.matching import taints_text
    from fleet.wellknown import TAINT_CORDON, TAINT_DRAIN

    status = cluster.get("status") or {}
    ready: dict[str, Any] = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), {})
    nodes, resources = status.get("nodeSummary") or {}, status.get("resourceSummary") or {}
    is_ready = ready.get("status") == "True"
    taints = {(taint.get("key"), taint.get("effect")) for taint in (cluster.get("spec") or {}).get("taints") or []}
    cordoned, draining = (TAINT_CORDON, "NoSchedule") in taints, (TAINT_DRAIN, "NoExecute") in taints
    state = ["ready" if is_ready else "not ready", *["cordoned"] * cordoned, *["draining"] * draining]
    nodes_off: list[str] = [entry["name"] for entry in status.get("avoidedNodes") or []]
    avoided = f"avoids {', '.join(nodes_off[:3])}{', …' * (len(nodes_off) > 3)}" if nodes_off else ""
    return {
        "name": cluster["metadata"]["name"],
        "state": ", ".join(state),
        "ready": is_ready,
        "mode": (cluster.get("spec") or {}).get("syncMode") or "Push",
        "cordoned": cordoned,
        "draining": draining,
        "version": status.get("kubernetesVersion"),
        "nodes": f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
        "gpus": (resources.get("allocatable") or {}).get(GPU, "0"),
        "gpus_used": (resources.get("allocated") or {}).get(GPU, "0"),
        "taints": taints_text((cluster.get("spec") or {}).get("taints")),
        "endpoint": (cluster.get("spec") or {}).get("apiEndpoint"),
        "message": avoided if is_ready else ready.get("message") or ready.get("reason") or "not looked at yet",
    }
