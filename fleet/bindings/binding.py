"""The reading of a ResourceBinding, in one place: its member, its reason to wait, its usage.

Loops and the API conclude from the same fields. Each conclusion is one pure function, so that they cannot differ;
docs/reference/objects.md names the writers of the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.bindings.conditions import condition, is_true
from fleet.core.model.charge import running
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Component
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import digits, mapping, number, pairs, rows, text, texts
from fleet.wellknown import (
    ANNOTATION_ENQUEUED,
    ANNOTATION_HOLD,
    ANNOTATION_POLICY,
    ANNOTATION_QUEUEING,
    ANNOTATION_SUSPENDED,
    ATTEMPT,
    PREEMPTIBLE_LABELS,
    QUEUING,
)

FINISHED = "Finished"  # condition: True with reason Succeeded or Failed once the member says that the job is over
REACHABLE = "MemberReachable"  # condition: only while it is False
WITHDRAWN = "Withdrawn"  # condition: only while it is False: pods or a copy have not left a member in time
OVER_TIME = "MaximumExecutionTimeExceeded"  # reason of an eviction
LIVE_PHASES = ("Pending", "Running", "Unknown")


def spec_of(body: Body | None) -> Mapping[str, Any]:
    """Its spec, empty where it has none that can be read."""
    return mapping((body or {}).get("spec"))


def status_of(body: Body | None) -> Mapping[str, Any]:
    """Its status, empty where it has none that can be read."""
    return mapping((body or {}).get("status"))


def labels_of(body: Body) -> Mapping[str, str]:
    return pairs(body["metadata"].get("labels"))


def resource_of(binding: Body) -> Mapping[str, Any]:
    """The object that it places; empty where it says none that can be read."""
    return mapping(spec_of(binding).get("resource"))


def is_gang(binding: Body) -> bool:
    return bool(spec_of(binding).get("gang"))


def deleting(body: Body) -> bool:
    return "deletionTimestamp" in body["metadata"]


def clusters_of(binding: Body) -> tuple[str, ...]:
    """The members that it is placed in; empty while it waits."""
    return tuple([text(entry.get("name")) for entry in rows(spec_of(binding).get("clusters"))])


def tasks_of(binding: Body) -> tuple[dict[str, Any], ...]:
    """Its graceful eviction tasks: members that it is leaving."""
    tasks = rows(spec_of(binding).get("gracefulEvictionTasks"))
    return tuple({**task, "fromCluster": text(task.get("fromCluster"))} for task in tasks) if tasks else ()


def member_of(binding: Body | None) -> str | None:
    """The member that it is leaving, or else is placed in; None while it is in none."""
    if binding is None:
        return None
    tasks = tasks_of(binding)
    places = (tasks[0]["fromCluster"],) if tasks else clusters_of(binding)
    return places[0] if places else None


def places_of(binding: Body) -> tuple[str, ...]:
    """The members that it is placed in, and those that it is leaving. Pods and copies count for it there alone: any
    member may show objects with its uid."""
    return (*clusters_of(binding), *(task["fromCluster"] for task in tasks_of(binding)))


def component_bodies(binding: Body) -> tuple[Any, ...]:
    """Its components as they are stored; `components.components_of` reads them."""
    return tuple(spec_of(binding).get("components") or ())


def priority_of(binding: Body) -> int:
    """The priority that its job or its policy gives it. Raises ValueError for a value that is no number."""
    return number(mapping(spec_of(binding).get("schedulePriority")).get("priority") or 0)


def placed_at(binding: Body) -> str:
    """When it was placed last, as it is written; "" for never."""
    return text(status_of(binding).get("lastScheduledTime"))


def copies_of(binding: Body | None) -> list[dict[str, Any]]:
    """The states of its copies in members: {clusterName, applied, health, status}."""
    return rows(status_of(binding).get("aggregatedStatus"))


def queued(binding: Body) -> bool:
    """Whether it waits in a queue now."""
    return bool(mapping(spec_of(binding).get("suspension")).get("scheduling"))


def dispatching_suspended(binding: Body, member: str) -> bool:
    """Whether its policy wants nothing sent to this member now; existing copies stay as they are."""
    suspension = mapping(spec_of(binding).get("suspension"))
    named = texts(mapping(suspension.get("dispatchingOnClusters")).get("clusterNames"))
    return bool(suspension.get("dispatching")) or member in named


def suspended(binding: Body) -> bool:
    """Whether its user suspended the job. A suspended job does not start, and leaves its member when it runs."""
    return annotation(binding, ANNOTATION_SUSPENDED) == "true"


def held(binding: Body) -> bool:
    """Whether a person keeps the job from starting; a running job goes on."""
    return annotation(binding, ANNOTATION_HOLD) == "true"


def wants_queue(binding: Body) -> bool:
    """Whether its policy wants it to wait in a queue whenever it waits."""
    return annotation(binding, ANNOTATION_QUEUEING) == "true"


def under_quota(binding: Body) -> bool:
    """Whether the binding is charged to quota, since it waits in a queue or came out of one."""
    return queued(binding) or condition(binding, QUEUING) is not None


def preemptible(binding: Body) -> bool:
    """Whether its job may be evicted for others, as it says itself."""
    labels = labels_of(binding)
    return next((labels[name] for name in PREEMPTIBLE_LABELS if name in labels), "true").lower() != "false"


def annotation(body: Body, name: str) -> str:
    annotations = body["metadata"].get("annotations")
    return text(annotations.get(name)) if isinstance(annotations, dict) else ""


def of_tenant(binding: Body) -> bool:
    """Whether a policy of a namespace stands behind the binding, or no policy any more. Such a binding has the rights
    of a tenant."""
    return not annotation(binding, ANNOTATION_POLICY).startswith("ClusterPropagationPolicy ")


def overwrites(binding: Body) -> bool:
    """Whether the policy behind it takes over objects of its names that members have of their own."""
    return spec_of(binding).get("conflictResolution") == "Overwrite" and not of_tenant(binding)


def attempt(binding: Body) -> int:
    """Number of the latest placement; 0 = never placed."""
    return digits(annotation(binding, ATTEMPT)) or 0


def attempt_of_copy(body: Body) -> int:
    """Number of the placement that an object in a member was sent for; 0 where no label says so."""
    return digits(pairs(body["metadata"].get("labels")).get(ATTEMPT)) or 0


def job_name(binding: Body) -> str:
    """namespace/name of the job, for people."""
    resource = resource_of(binding)
    name = text(resource.get("name")) or str(binding["metadata"].get("name"))
    return f"{resource['namespace']}/{name}" if resource.get("namespace") else name


def enqueued(binding: Body) -> str:
    """When it was first enqueued, as it is written: kept over re-queueing."""
    said = annotation(binding, ANNOTATION_ENQUEUED)
    return said if seconds(said) else text(binding["metadata"].get("creationTimestamp"))


def enqueued_at(binding: Body) -> float:
    """The same in epoch seconds."""
    return seconds(enqueued(binding)) or 0.0


def finished(binding: Body) -> bool:
    return is_true(binding, FINISHED)


def outcome_of(binding: Body) -> str:
    """Succeeded or Failed, once its member says that the job is over; "" before."""
    told = condition(binding, FINISHED)
    return text(told.get("reason")) if told is not None and told.get("status") == "True" else ""


def charged_components(
    admitted: tuple[Component, ...], pods: Iterable[PodView], *, over: bool
) -> tuple[Component, ...]:
    """The charge of a gang in its member: the amount that it was admitted with, or the requests of its pods there where
    these are more. A pod that is on its way out counts no second time beside the one that comes for it. `over`: no more
    pods come, so those that are left are the whole charge."""
    live = [
        (pod.component, pod.requests)
        for pod in pods
        if pod.phase in LIVE_PHASES and not pod.placeholder and (over or not pod.terminating)
    ]
    return tuple(running(() if over else admitted, live))


def charged(binding: Body, pods: Iterable[PodView]) -> bool:
    """Whether the gang uses quota and room: from the moment it is placed until its member shows the job over and its
    last pod gone or finished. A status that is not there (yet, or any more) never counts as over."""
    if tasks_of(binding):
        return True
    if finished(binding):
        return any(pod.phase in LIVE_PHASES for pod in pods)
    return bool(clusters_of(binding)) or (deleting(binding) and bool(tuple(pods)))
