"""Pods and nodes as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.values.durations import age
from fleet.values.times import seconds

Body = dict[str, Any]
_NONE = "<none>"
_UNKNOWN = "<unknown>"


def _init_status(body: Body, reason: str) -> tuple[str, bool, int, int]:
    """The part of the status that init containers make: (reason, initialising, restarts, sidecars that are ready)."""
    specs = body.get("spec", {}).get("initContainers") or []
    sidecars = {c["name"] for c in specs if c.get("restartPolicy") == "Always"}
    restarts, ready_sidecars = 0, 0
    for index, status in enumerate(body.get("status", {}).get("initContainerStatuses") or []):
        restarts += status.get("restartCount", 0)
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            ready_sidecars += bool(status.get("ready"))
            continue
        if terminated is not None:
            reason = f"Init:{_terminated(terminated)}"
        elif waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{len(specs)}"
        return reason, True, restarts, ready_sidecars
    return reason, False, restarts, ready_sidecars


def _terminated(terminated: Body) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def pod_status(body: Body, now: float = 0.0) -> str:
    status = body.get("status", {})
    reason = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason, initialising, _, _ = _init_status(body, reason)
    if not initialising:
        running = False
        for container in reversed(status.get("containerStatuses") or []):
            state = container.get("state") or {}
            if (state.get("waiting") or {}).get("reason"):
                reason = state["waiting"]["reason"]
            elif state.get("terminated") is not None:
                reason = _terminated(state["terminated"])
            elif container.get("ready") and "running" in state:
                running = True
        if reason == "Completed" and running:
            ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or [])
            reason = "Running" if ready else "NotReady"
    if body["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _containers(body: Body) -> int:
    spec = body.get("spec", {})
    sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
    return len(spec.get("containers") or []) + len(sidecars)


def pod_ready(body: Body, now: float = 0.0) -> str:
    _, initialising, _, ready = _init_status(body, "")
    if not initialising:
        statuses = body.get("status", {}).get("containerStatuses") or []
        ready += sum(1 for s in statuses if s.get("ready") and "running" in (s.get("state") or {}))
    return f"{ready}/{_containers(body)}"


def pod_restarts(body: Body, now: float) -> str:
    _, initialising, init_restarts, _ = _init_status(body, "")
    statuses = body.get("status", {}).get("initContainerStatuses" if initialising else "containerStatuses") or []
    restarts = init_restarts if initialising else sum(s.get("restartCount", 0) for s in statuses)
    ends = [((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    last = max((moment for end in ends if end and (moment := seconds(end)) is not None), default=None)
    if restarts and last is not None:
        latest = next(end for end in ends if end and seconds(end) == last)
        return f"{restarts} ({age(latest, now)} ago)"
    return str(restarts)


def pod_ip(body: Body, now: float = 0.0) -> str:
    status = body.get("status", {})
    ips = [entry.get("ip") for entry in status.get("podIPs") or [] if entry.get("ip")]
    return str(ips[0] if ips else status.get("podIP") or _NONE)


def pod_node(body: Body, now: float = 0.0) -> str:
    return str(body.get("spec", {}).get("nodeName") or _NONE)


def pod_nominated_node(body: Body, now: float = 0.0) -> str:
    return str(body.get("status", {}).get("nominatedNodeName") or _NONE)


def pod_readiness_gates(body: Body, now: float = 0.0) -> str:
    gates = [gate.get("conditionType") for gate in body.get("spec", {}).get("readinessGates") or []]
    if not gates:
        return _NONE
    true = {c["type"] for c in body.get("status", {}).get("conditions") or [] if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate in true)}/{len(gates)}"


def node_status(body: Body, now: float = 0.0) -> str:
    ready = [c for c in body.get("status", {}).get("conditions") or [] if c.get("type") == "Ready"]
    words = ["Ready" if ready[0].get("status") == "True" else "NotReady"] if ready else ["Unknown"]
    if body.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(body: Body, now: float = 0.0) -> str:
    prefix, roles = "node-role.kubernetes.io/", set()
    for label, value in (body["metadata"].get("labels") or {}).items():
        if label.startswith(prefix) and len(label) > len(prefix):
            roles.add(label.removeprefix(prefix))
        elif label == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or _NONE


def _address(body: Body, kind: str) -> str:
    for address in body.get("status", {}).get("addresses") or []:
        if address.get("type") == kind:
            return str(address["address"])
    return _NONE


def _info(field: str) -> Callable[[Body, float], Any]:
    return lambda body, now: (body.get("status", {}).get("nodeInfo") or {}).get(field) or _UNKNOWN


PODS: dict[str, Callable[[Body, float], Any]] = {
    "pod_ready": pod_ready,
    "pod_status": pod_status,
    "pod_restarts": pod_restarts,
    "pod_ip": pod_ip,
    "pod_node": pod_node,
    "pod_nominated_node": pod_nominated_node,
    "pod_readiness_gates": pod_readiness_gates,
    "node_status": node_status,
    "node_roles": node_roles,
    "node_internal_ip": lambda body, now: _address(body, "InternalIP"),
    "node_external_ip": lambda body, now: _address(body, "ExternalIP"),
    "node_os_image": _info("osImage"),
    "node_kernel": _info("kernelVersion"),
    "node_runtime": _info("containerRuntimeVersion"),
}
