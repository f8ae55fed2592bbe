"""The changes of a start in the objects of its unit: the binding is placed, its QueueUnit leaves the queue."""

from __future__ import annotations

from typing import NamedTuple

from api.engine.status import conflict
from fleet.bindings import binding as b
from fleet.bindings import claims, heads
from fleet.bindings.components import requests_of
from fleet.bindings.conditions import set_condition
from fleet.bindings.nomination import NOMINATION
from fleet.bindings.unit import DEQUEUED, EVICTED, QUOTA_RESERVED, evicted
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_GANG, ANNOTATION_ROOM, ATTEMPT, QUEUING, SCHEDULED, WORK


def waits(binding: Body) -> bool:
    """Whether it may be placed."""
    return not (b.deleting(binding) or b.clusters_of(binding) or b.tasks_of(binding) or b.suspended(binding))


def result_text(binding: Body, member: str) -> str:
    """As the walk-through prints it: {cfa:0,[{master 1} {worker 2}]}."""
    components = " ".join(f"{{{c['name']} {c['replicas']}}}" for c in b.component_bodies(binding))
    return f"{{{member}:0,[{components}]}}"


SHARE_UNTIL = "shareUntil"  # in a binding's status: until then it counts as within its leaf's share


class Way(NamedTuple):
    """How a gang goes into its member: the value of its topology label, how its room is held, its gang scheduler; each
    "" for none."""

    domain: str = ""
    room: str = ""
    gang: str = ""


def placed(binding: Body, member: str, now: float, way: Way = Way(), share_until: float | None = None) -> Body:  # noqa: B008 (immutable)
    """The binding, placed for a new attempt. Refused (409) when it is being deleted, or its job was suspended."""
    if not waits(binding):
        raise conflict(WORK, "resourcebindings", binding["metadata"]["name"])
    spec = binding["spec"]
    spec["clusters"] = [{"name": member, "replicas": 0}]
    was_queued = b.queued(binding)
    if "suspension" in spec:
        spec["suspension"]["scheduling"] = False
    annotations = binding["metadata"].setdefault("annotations", {})
    annotations[ATTEMPT] = str(b.attempt(binding) + 1)
    for key, value in ((ANNOTATION_DOMAIN, way.domain), (ANNOTATION_ROOM, way.room), (ANNOTATION_GANG, way.gang)):
        annotations.pop(key, None)
        if value:
            annotations[key] = value
    set_condition(binding, SCHEDULED, True, "Success", "Binding has been scheduled successfully.", now)
    if was_queued:
        set_condition(binding, QUEUING, False, "Dequeued", "", now)
    binding["status"]["lastScheduledTime"] = rfc3339(now)
    binding["status"].pop(heads.HEAD, None)
    binding["status"].pop(SHARE_UNTIL, None)
    if share_until is not None:
        binding["status"][SHARE_UNTIL] = rfc3339(share_until)
    return binding


def dequeued(unit: Body, binding: Body, member: str, attempt: int, now: float) -> Body:
    """The unit, out of its queue."""
    claims.release(unit)
    status = unit.setdefault("status", {})
    for name in ("reason", "requeueState", heads.HEAD, NOMINATION):
        status.pop(name, None)
    status.update(
        phase=DEQUEUED,
        message="",
        attempts=attempt,
        lastUpdateTime=rfc3339(now),
        lastAllocateTime=rfc3339(now),
        admissions=[
            {
                "name": component["name"],
                "replicas": component["replicas"],
                "cluster": member,
                "resources": requests_of(component),
            }
            for component in b.component_bodies(binding)
        ],
    )
    told = evicted(unit)
    if told is not None and told["status"] == "True":  # over; the reason of the end stays to be read
        set_condition(unit, EVICTED, False, QUOTA_RESERVED, f"Previously: {told['message']}", now)
    for type_ in (QUOTA_RESERVED, "Admitted"):
        set_condition(unit, type_, True, type_, "", now)
    return unit
