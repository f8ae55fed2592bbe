"""Events, jobs, services, claims, roles and the rest as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleet.engine.durations import age, human
from fleet.model.times import seconds

Body = dict[str, Any]
_NONE = "<none>"
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def data_count(body: Body, now: float) -> int:
    return len(body.get("data") or {}) + len(body.get("binaryData") or {})


def created_at(body: Body, now: float) -> Any:
    return body["metadata"].get("creationTimestamp")


def selector(body: Body, now: float) -> str:
    found = body.get("spec", {}).get("selector") or {}
    labels = found.get("matchLabels") if isinstance(found.get("matchLabels"), dict) else found
    pairs = [f"{k}={v}" for k, v in sorted((labels or {}).items()) if isinstance(v, str)]
    return ",".join(pairs) or _NONE


# -- events (core/v1 and events.k8s.io/v1 name their fields differently)


def _first_time(body: Body) -> str | None:
    return body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")


def event_first_seen(body: Body, now: float) -> str:
    return age(_first_time(body), now)


def event_last_seen(body: Body, now: float) -> str:
    series = body.get("series") or {}
    last = series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("deprecatedLastTimestamp")
    return age(last or _first_time(body), now)


def event_object(body: Body, now: float) -> str:
    about = body.get("involvedObject") or body.get("regarding") or {}
    kind, name = str(about.get("kind") or "").lower(), about.get("name")
    return f"{kind}/{name}" if name else kind


def event_source(body: Body, now: float) -> str:
    source = body.get("source") or body.get("deprecatedSource") or {}
    component = source.get("component") or body.get("reportingComponent") or body.get("reportingController") or ""
    host = source.get("host") or body.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def event_message(body: Body, now: float) -> str:
    return str(body.get("message") or body.get("note") or "").strip()


def event_count(body: Body, now: float) -> int:
    series = body.get("series") or {}
    return int(series.get("count") or body.get("count") or body.get("deprecatedCount") or 1)


# -- volumes and services


def pvc_status(body: Body, now: float) -> str:
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(body.get("status", {}).get("phase") or "")


def _bound(body: Body) -> bool:
    return bool(body.get("spec", {}).get("volumeName"))


def pvc_capacity(body: Body, now: float) -> str:
    return str((body.get("status", {}).get("capacity") or {}).get("storage", "")) if _bound(body) else ""


def pvc_access_modes(body: Body, now: float) -> str:
    modes: Iterable[str] = body.get("status", {}).get("accessModes") or [] if _bound(body) else []
    return ",".join(_ACCESS_MODES.get(mode, mode) for mode in modes)


def pvc_attributes_class(body: Body, now: float) -> str:
    return str(body.get("spec", {}).get("volumeAttributesClassName") or "<unset>")


def service_cluster_ip(body: Body, now: float) -> str:
    return str(body.get("spec", {}).get("clusterIP") or _NONE)


def service_external_ip(body: Body, now: float) -> str:
    spec = body.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or _NONE)
    ingress = (body.get("status", {}).get("loadBalancer") or {}).get("ingress") or []
    found = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress] + (spec.get("externalIPs") or [])
    return ",".join(found) or ("<pending>" if spec.get("type") == "LoadBalancer" else _NONE)


def service_ports(body: Body, now: float) -> str:
    ports = []
    for port in body.get("spec", {}).get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol') or 'TCP'}")
    return ",".join(ports) or _NONE


# -- quota, priority, roles


def _limits(body: Body, limits: bool) -> str:
    hard, used = (body.get("status", {}).get(field) or {} for field in ("hard", "used"))
    names = sorted(name for name in hard if name.startswith("limits.") is limits)
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


def _subjects(kind: str) -> Callable[[Body, float], str]:
    def names(body: Body, now: float) -> str:
        found = [s for s in body.get("subjects") or [] if s.get("kind") == kind]
        return ", ".join(f"{s['namespace']}/{s['name']}" if s.get("namespace") else s["name"] for s in found)

    return names


def binding_role(body: Body, now: float) -> str:
    role = body.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


# -- batch/v1 Job


def job_status(body: Body, now: float) -> str:
    true = {c["type"] for c in body.get("status", {}).get("conditions") or [] if c.get("status") == "True"}
    for type_ in ("Complete", "Failed"):
        if type_ in true:
            return type_
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    # The first two are the hub's own: a job that waits there has no pods, and must not be called running.
    for type_ in ("Queuing", "Pending", "Suspended", "FailureTarget"):
        if type_ in true:
            return type_
    return "SuccessCriteriaMet" if "SuccessCriteriaMet" in true else "Running"


def job_completions(body: Body, now: float) -> str:
    spec, done = body.get("spec", {}), body.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def job_duration(body: Body, now: float) -> str:
    status = body.get("status", {})
    start = seconds(status.get("startTime"))
    if start is None:
        return ""
    end = seconds(status.get("completionTime"))
    return human((end if end is not None else now) - start)


def ready_replicas(body: Body, now: float) -> str:
    """Of a Deployment or a StatefulSet: the ready replicas of those that it wants."""
    wanted = body.get("spec", {}).get("replicas")
    return f"{body.get('status', {}).get('readyReplicas') or 0}/{1 if wanted is None else wanted}"


def _pod_field(field: str) -> Callable[[Body, float], str]:
    def values(body: Body, now: float) -> str:
        spec = (body.get("spec", {}).get("template") or {}).get("spec") or {}
        return ",".join(c.get(field, "") for c in spec.get("containers") or [])

    return values


OTHERS: dict[str, Callable[[Body, float], Any]] = {
    "data_count": data_count,
    "created_at": created_at,
    "selector": selector,
    "secrets_count": lambda body, now: len(body.get("secrets") or []),
    "event_first_seen": event_first_seen,
    "event_last_seen": event_last_seen,
    "event_object": event_object,
    "event_source": event_source,
    "event_message": event_message,
    "event_count": event_count,
    "pvc_status": pvc_status,
    "pvc_capacity": pvc_capacity,
    "pvc_access_modes": pvc_access_modes,
    "pvc_attributes_class": pvc_attributes_class,
    "service_cluster_ip": service_cluster_ip,
    "service_external_ip": service_external_ip,
    "service_ports": service_ports,
    "quota_requests": lambda body, now: _limits(body, False),
    "quota_limits": lambda body, now: _limits(body, True),
    "priority_global_default": lambda body, now: bool(body.get("globalDefault")),
    "binding_role": binding_role,
    "binding_users": _subjects("User"),
    "binding_groups": _subjects("Group"),
    "binding_service_accounts": _subjects("ServiceAccount"),
    "job_status": job_status,
    "job_completions": job_completions,
    "job_duration": job_duration,
    "ready_replicas": ready_replicas,
    "job_containers": _pod_field("name"),
    "job_images": _pod_field("image"),
}
