"""`fleet jobs`: every job with its state, where it is, and the one reason why it waits."""

from __future__ import annotations

import time
from typing import Any

from fleet.cli.options import (
    AllNamespacesOption,
    DataDirOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    OutputOption,
)

COLUMNS = ("name", "kind", "state", "member", "age", "reason")
BINDINGS = "/apis/work.karmada.io/v1alpha2"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1"


def jobs(
    namespace: NamespaceOption = "default",
    all_namespaces: AllNamespacesOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs: state, member, and for a waiting one the reason."""
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    hub = connect(kubeconfig, data_dir)
    where = "" if all_namespaces else f"/namespaces/{namespace}"
    bindings = hub.list(f"{BINDINGS}{where}/resourcebindings")
    units = hub.list(f"{UNITS}{where}/queueunits")
    by_name = {(unit["metadata"]["namespace"], unit["metadata"]["name"]): unit for unit in units}
    records = [
        record(
            binding,
            by_name.get((place["namespace"], place["name"] + "-rb-qu")),
            time.time(),
        )
        for binding, place in ((binding, binding["metadata"]) for binding in bindings)
        if (binding.get("spec") or {}).get("components")
    ]
    columns = ("namespace", *COLUMNS) if all_namespaces else COLUMNS
    nothing = "No jobs" if all_namespaces else f"No jobs in {namespace} namespace"
    show(records, columns, output, nothing=nothing)


def record(binding: dict[str, Any], unit: dict[str, Any] | None, now: float) -> dict[str, Any]:
    """One job as a line; `now` in epoch seconds."""
    from datetime import datetime

    metadata, spec, status = binding["metadata"], binding.get("spec") or {}, binding.get("status") or {}
    resource = spec.get("resource") or {}
    member = next((cluster.get("name") for cluster in spec.get("clusters") or ()), "")
    unit_status = (unit or {}).get("status") or {}
    created = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
    state = state_of(member, status, unit_status)
    waits = state in ("Queued", "Waiting", "Reserved", "BackOff")
    unreachable = _message(status, "MemberReachable")  # what is shown of the job is then what was last seen
    return {
        "namespace": metadata["namespace"],
        "name": resource.get("name"),
        "kind": resource.get("kind"),
        "state": state,
        "member": member,
        "age": age(now - created),
        "reason": (unit_status.get("message") or _message(status, "Scheduled")) if waits else unreachable,
        "code": (unit_status.get("reason") or {}).get("code") if waits else None,
        "numbers": (unit_status.get("reason") or {}).get("numbers") if waits else None,
    }


def state_of(member: str, status: dict[str, Any], unit_status: dict[str, Any]) -> str:
    """Queued, Reserved, BackOff, Waiting (without a queue), Placed, or what the member says: Running, Succeeded, …"""
    phase = unit_status.get("phase", "")
    if member:
        copies = status.get("aggregatedStatus") or [{}]
        conditions = ((copies[0] or {}).get("status") or {}).get("conditions") or []
        true = [str(c.get("type")) for c in conditions if c.get("status") == "True"]
        return true[-1] if true else "Placed"
    if phase in ("Succeed", "Failed"):
        return str(phase)
    if phase in ("TimeoutBackoff", "Reserved"):
        return "BackOff" if phase == "TimeoutBackoff" else "Reserved"
    return "Queued" if phase else "Waiting"


def _message(status: dict[str, Any], kind: str) -> str:
    """Of the condition of this type, where it is not True."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def age(seconds: float) -> str:
    """As kubectl prints ages: 8s, 3m44s, 15m, 2h5m, 15d."""
    total = max(0, int(seconds))
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
