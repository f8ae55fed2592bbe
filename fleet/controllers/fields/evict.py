"""Taking a gang out of its member: one change of its binding, for every caller and cause.

The change is pure. The placement moves to a graceful eviction task, which keeps the gang charged and unplaced until the
member shows nothing of it any more (`dispatch` removes the copy, then the task), and puts a gang whose policy queues
back into its queue, with the enqueue time it had.
"""

from __future__ import annotations

from fleet.bindings.binding import (
    FINISHED,
    REACHABLE,
    clusters_of,
    tasks_of,
    wants_queue,
)
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.failures import Failure, failures_of, failures_text, with_failure
from fleet.model.times import rfc3339
from fleet.ports import Body
from fleet.wellknown import ANNOTATION_RETRIES, FULLY_APPLIED, GANG_WHOLE, QUEUING, SCHEDULED

PURGE_MODES = {
    "Immediately": "Directly", "Directly": "Directly", "Graciously": "Gracefully", "Gracefully": "Gracefully",
    "Never": "Never",
}  # fmt: skip


def purge_mode(text: object) -> str:
    """Both spellings of a policy's purgeMode, as Karmada's newer one; a missing one is Directly: one live copy."""
    return PURGE_MODES.get(str(text or ""), "Directly")


def evict(
    binding: Body, *, now: float, reason: str, message: str, failure: Failure | None = None, left_behind: bool = False
) -> bool:
    """Change `binding` in place; False when it is not placed. `left_behind`: do not wait for the member to show that
    nothing is left (its policy accepts a second copy, or nothing was ever sent)."""
    members = clusters_of(binding)
    if not members:
        return False
    spec = binding["spec"]
    spec["clusters"] = []
    if not left_behind:
        task = {
            "reason": reason,
            "message": message,
            "producer": "fleet",
            "purgeMode": "Directly",
            "creationTimestamp": rfc3339(now),
        }
        known = {entry["fromCluster"] for entry in tasks_of(binding)}
        spec["gracefulEvictionTasks"] = [
            *tasks_of(binding), *({"fromCluster": name, **task} for name in members if name not in known)
        ]  # fmt: skip
    if failure is not None:
        annotations = binding["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION_RETRIES] = failures_text(with_failure(failures_of(binding), failure))
    set_condition(binding, SCHEDULED, False, reason, message, now)
    if wants_queue(binding):
        spec.setdefault("suspension", {})["scheduling"] = True
        set_condition(binding, QUEUING, True, "Enqueued", message, now)
    else:
        drop_condition(binding, QUEUING)
    for type_ in (FINISHED, REACHABLE, FULLY_APPLIED, GANG_WHOLE):
        drop_condition(binding, type_)
    binding["status"].pop("aggregatedStatus", None)
    return True
