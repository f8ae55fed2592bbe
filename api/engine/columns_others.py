"""Events, jobs, quotas, roles and the rest as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.values.durations import age, human
from fleet.values.times import seconds

Body = dict[str, Any]


def data_count(body: Body, now: float) -> int:
    return len(body.get("data") or {}) + len(body.get("binaryData") or {})


def created_at(body: Body, now: float) -> Any:
    return body["metadata"].get("creationTimestamp")


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
    # Queuing and Pending are the hub's own: a job that waits there has no pods, and must not be called running.
    for type_ in ("Suspended", "Queuing", "Pending", "FailureTarget"):
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


def component_status(body: Body, now: float) -> str:
    for condition in body.get("conditions") or ():
        if condition.get("type") == "Healthy":
            return "Healthy" if condition.get("status") == "True" else "Unhealthy"
    return "Unknown"


OTHERS: dict[str, Callable[[Body, float], Any]] = {
    "component_status": component_status,
    "data_count": data_count,
    "created_at": created_at,
    "event_first_seen": event_first_seen,
    "event_last_seen": event_last_seen,
    "event_object": event_object,
    "event_source": event_source,
    "event_message": event_message,
    "event_count": event_count,
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
}
