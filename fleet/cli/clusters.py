"""`fleet clusters`: the members and their room."""

from __future__ import annotations

from typing import Any

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, ListOutput, ListOutputOption, Output

COLUMNS = ("name", "state", "nodes", "gpus", "gpus_used", "taints", "message")
WIDE = ("name", "state", "mode", "version", "nodes", "gpus", "gpus_used", "taints", "endpoint", "message")
GPU = "nvidia.com/gpu"


def clusters(
    output: ListOutputOption = ListOutput.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the members: ready, cordoned or why not, nodes, GPUs."""
    from fleet.amc.get import CLUSTERS
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    found = connect(kubeconfig, data_dir, context).list(CLUSTERS)
    records = [record(cluster) if output.form is not Output.table else line(cluster) for cluster in found]
    columns = WIDE if output is ListOutput.wide else COLUMNS
    show(records, columns, output.form, nothing="No members: fleet join NAME --kubeconfig FILE")


def record(cluster: dict[str, Any]) -> dict[str, Any]:
    """One member, for programs."""
    from fleet.cli.cordon import has
    from fleet.model.matching import taints_text
    from fleet.wellknown import TAINT_CORDON, TAINT_DRAIN

    status, taints = cluster.get("status") or {}, (cluster.get("spec") or {}).get("taints") or []
    ready, drain = _condition(status, "Ready"), _condition(status, "Draining")
    nodes, resources = status.get("nodeSummary") or {}, status.get("resourceSummary") or {}
    is_ready, cordoned, drains = ready.get("status") == "True", has(taints, TAINT_CORDON), has(taints, TAINT_DRAIN)
    drained = drains and (drain.get("status"), drain.get("reason")) == ("False", "Drained")
    out = "drained" if drained else "draining" if drains else "cordoned" if cordoned else ""
    if not is_ready:
        message = ready.get("message") or ready.get("reason") or "not looked at yet"
    else:
        going = drain.get("message", "") if drains and not drained else ""
        avoided = _avoided(status, "avoidedNodes", "name"), _avoided(status, "avoidedKinds", "kind")
        message = "; ".join(filter(None, (going, *avoided)))
    return {
        "name": cluster["metadata"]["name"],
        "state": ", ".join(filter(None, ("ready" if is_ready else "not ready", out))),
        "ready": is_ready,
        "mode": (cluster.get("spec") or {}).get("syncMode") or "Push",
        "cordoned": cordoned,
        "draining": drains and not drained,
        "drained": drained,
        "version": status.get("kubernetesVersion"),
        "nodes": f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
        "gpus": (resources.get("allocatable") or {}).get(GPU, "0"),
        "gpus_used": (resources.get("allocated") or {}).get(GPU, "0"),
        "taints": taints_text(taints),
        "endpoint": (cluster.get("spec") or {}).get("apiEndpoint"),
        "message": message,
    }


def line(cluster: dict[str, Any]) -> dict[str, Any]:
    """The same for people: the state says already what cordon and drain have put there."""
    from fleet.cli.cordon import own
    from fleet.model.matching import taints_text

    taints = (cluster.get("spec") or {}).get("taints") or []
    return record(cluster) | {"taints": taints_text([taint for taint in taints if not own(taint)])}


def _condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((found for found in status.get("conditions") or [] if found.get("type") == type_), {})


def _avoided(status: dict[str, Any], field: str, name: str) -> str:
    """The nodes, or the kinds of jobs, that the hub counts out there for a time."""
    found: list[str] = [entry[name] for entry in status.get(field) or []]
    return f"avoids {', '.join(found[:3])}{', …' * (len(found) > 3)}" if found else ""
