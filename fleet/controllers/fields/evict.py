"""Taking a gang out of its member: one change of its binding, for every caller and cause.

The change is pure. The placement moves to a graceful eviction task, which keeps the gang charged and unplaced until the
member shows nothing of it any more (`dispatch` gives notice, removes the copy, then the task), and puts a gang whose
policy queues back into its queue, with the enqueue time it had. The state that the policy preserves is read first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.bindings import notice, preserved
from fleet.bindings.binding import (
    FINISHED,
    REACHABLE,
    clusters_of,
    tasks_of,
    wants_queue,
)
from fleet.bindings.components import WANTED
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.failures import AttemptFailure, failures_of, failures_text, with_failure
from fleet.bindings.faults import FAILURE
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_RETRIES, FULLY_APPLIED, GANG_WHOLE, QUEUING, RESIZED, SCHEDULED


def evict(
    binding: Body,
    *,
    now: float,
    reason: str,
    message: str,
    failure: AttemptFailure | None = None,
    left_behind: bool = False,
) -> bool:
    """Change `binding` in place; False when it is not placed. `left_behind`: do not wait for the member to show that
    nothing is left (its policy accepts a second copy, or nothing was ever sent)."""
    members = clusters_of(binding)
    if not members:
        return False
    spec = binding["spec"]
    state = preserved.preserve(binding, lost=left_behind).values
    preserved.keep(binding, state)
    if not left_behind:
        task = {"reason": reason, "message": message, **notice.of_task(binding, reason, now)}
        if state:
            task |= {"preservedLabelState": preserved.labels(state), "clustersBeforeFailover": list(members)}
        leave(binding, members, task, now)
    spec["clusters"] = []
    if failure is not None:
        annotations = binding["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION_RETRIES] = failures_text(with_failure(failures_of(binding), failure))
    set_condition(binding, SCHEDULED, False, reason, message, now)
    if wants_queue(binding):
        spec.setdefault("suspension", {})["scheduling"] = True
        set_condition(binding, QUEUING, True, "Enqueued", message, now)
    else:
        drop_condition(binding, QUEUING)
    spec.pop(WANTED, None)
    for type_ in (FINISHED, REACHABLE, FULLY_APPLIED, GANG_WHOLE, RESIZED):
        drop_condition(binding, type_)
    for field in ("aggregatedStatus", FAILURE):
        binding["status"].pop(field, None)
    return True


def leave(binding: Body, members: Sequence[str], task: dict[str, Any], now: float) -> None:
    """Add an eviction task for each of these members that has none, in place."""
    known = {entry["fromCluster"] for entry in tasks_of(binding)}
    told = {"producer": "fleet", "creationTimestamp": rfc3339(now), **task}
    binding["spec"]["gracefulEvictionTasks"] = [
        *tasks_of(binding),
        *({"fromCluster": name, **told} for name in members if name not in known),
    ]
