"""What a start changes in the objects of its unit: the binding is placed, its QueueUnit leaves the queue."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings import claims, heads
from fleet.bindings.conditions import condition, set_condition
from fleet.controllers.fields import reserving
from fleet.engine.status import conflict
from fleet.model.times import rfc3339
from fleet.ports import Body
from fleet.wellknown import ANNOTATION_DOMAIN, ATTEMPT, QUEUING, SCHEDULED, WORK


def waits(binding: Body) -> bool:
    """Whether it may be placed."""
    return not (b.deleting(binding) or b.clusters_of(binding) or b.tasks_of(binding) or b.suspended(binding))


def result_text(binding: Body, member: str) -> str:
    """As the walk-through prints it: {cfa:0,[{master 1} {worker 2}]}."""
    components = " ".join(f"{{{c['name']} {c['replicas']}}}" for c in binding["spec"].get("components") or ())
    return f"{{{member}:0,[{components}]}}"


SHARE_UNTIL = "shareUntil"  # in a binding's status: until then it counts as within its leaf's share


def placed(binding: Body, member: str, now: float, domain: str = "", share_until: float | None = None) -> Body:
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
    annotations.pop(ANNOTATION_DOMAIN, None)
    if domain:
        annotations[ANNOTATION_DOMAIN] = domain
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
    for name in ("reason", "requeueState", heads.HEAD, reserving.NOMINATION):
        status.pop(name, None)
    status.update(
        phase="Dequeued",
        message="",
        attempts=attempt,
        lastUpdateTime=rfc3339(now),
        lastAllocateTime=rfc3339(now),
        admissions=[
            {
                "name": component["name"],
                "replicas": component["replicas"],
                "cluster": member,
                "resources": (component.get("replicaRequirements") or {}).get("resourceRequest") or {},
            }
            for component in binding["spec"].get("components") or ()
        ],
    )
    evicted = condition(unit, "Evicted")
    if evicted is not None and evicted["status"] == "True":  # it is over, and why it was stays to be read
        set_condition(unit, "Evicted", False, "QuotaReserved", f"Previously: {evicted['message']}", now)
    for type_, reason in (("QuotaReserved", "QuotaReserved"), ("Admitted", "Admitted")):
        set_condition(unit, type_, True, reason, "", now)
    return unit
