"""The time that a running gang gets before it is taken out of a member: the notice, and the grace of its pods after it.

The notice is an annotation on the copy and its pods, for programs that look at it; the grace is the time between
SIGTERM and SIGKILL, for all others. Both are written into the eviction task, so that a later change of a policy
shortens neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import is_true
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import digits, mapping, text, whole
from fleet.wellknown import ANNOTATION_NOTICE, GANG_WHOLE

NOTICE_MAX_S = 600  # below the default of --claim-seconds, so that a claim outlasts the notice of its victims
EVICT_AT = "evictAt"  # in an eviction task
ASKED_FOR = frozenset({"Suspended"})  # reasons of evictions that the user of the job wants at once

PURGE_MODES = {
    "Immediately": "Directly",
    "Directly": "Directly",
    "Graciously": "Gracefully",
    "Gracefully": "Gracefully",
    "Never": "Never",
}


def purge_mode(text: object) -> str:
    """Both spellings of a policy's purgeMode, as Karmada's newer one; a missing one is Directly: one live copy."""
    return PURGE_MODES.get(str(text or ""), "Directly")


def cluster_failover(binding: Body) -> Mapping[str, Any] | None:
    """What its policy says for a member that does not answer; None where the job waits for the member."""
    failover = mapping(b.spec_of(binding).get("failover")).get("cluster")
    if failover is None or purge_mode(mapping(failover).get("purgeMode")) == "Never" or b.finished(binding):
        return None
    return mapping(failover)


def notice_s(binding: Body) -> int:
    """The seconds of notice that its job or its policy asks for."""
    return min(NOTICE_MAX_S, digits(b.annotation(binding, ANNOTATION_NOTICE), 9) or 0)


def grace_s(binding: Body) -> int | None:
    """The grace that a policy with purgeMode Gracefully gives to the pods; None: the pods' own."""
    failover = mapping(b.spec_of(binding).get("failover"))
    for part in ("application", "cluster"):
        said = mapping(failover.get(part))
        if purge_mode(said.get("purgeMode")) == "Gracefully" and said.get("gracePeriodSeconds") is not None:
            return max(0, whole(said["gracePeriodSeconds"]))
    return None


def leaving_s(binding: Body) -> int:
    """For so long an eviction of it occupies its room without its work going on."""
    return notice_s(binding) + (grace_s(binding) or 0)


def of_task(binding: Body, reason: str, now: float) -> dict[str, Any]:
    """The fields of its eviction task that say how it goes. A gang whose pods never all ran, or are over, has nothing
    to save."""
    fields: dict[str, Any] = {"purgeMode": "Directly"}
    if b.finished(binding):
        return fields
    grace, notice = grace_s(binding), notice_s(binding)
    if grace is not None:
        fields = {"purgeMode": "Gracefully", "gracePeriodSeconds": grace}
    if notice and is_true(binding, GANG_WHOLE) and reason not in ASKED_FOR:
        fields[EVICT_AT] = rfc3339(math.ceil(now + notice))
    return fields


def evict_at(task: Mapping[str, Any]) -> float | None:
    """Epoch seconds at which the copy is deleted; None: at once."""
    return seconds(text(task.get(EVICT_AT)))


def task_of(binding: Body, member: str) -> Mapping[str, Any] | None:
    """The eviction task of this member."""
    return next((task for task in b.tasks_of(binding) if task["fromCluster"] == member), None)
