"""Fleet's own objects: what users may change of bindings and units, and what a member must look like.

Controllers write through `Objects.change`, which asks no rules: these are for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from fleet.admission.rule import Checks, dig, invalid, of_new, only_mutable, unsupported
from fleet.engine.status import Cause
from fleet.ports import Body
from fleet.store.writing import Review

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def cluster(body: Body) -> Sequence[Cause]:
    spec, causes = body.get("spec") or {}, []
    if spec.get("syncMode") not in (None, "Push"):
        causes.append(unsupported("spec.syncMode", spec["syncMode"], ("Push",)))
    endpoint = spec.get("apiEndpoint")
    if endpoint and (urlsplit(str(endpoint)).scheme not in ("http", "https") or not urlsplit(str(endpoint)).hostname):
        causes.append(invalid("spec.apiEndpoint", endpoint, "must be the address of an API server, https://HOST:PORT"))
    for index, taint in enumerate(spec.get("taints") or []):
        if taint.get("effect") not in _EFFECTS:
            causes.append(unsupported(f"spec.taints[{index}].effect", taint.get("effect"), _EFFECTS))
        if not taint.get("key"):
            causes.append(invalid(f"spec.taints[{index}].key", taint.get("key") or "", "must not be empty"))
    return causes


def _id_stays(review: Review) -> Sequence[Cause]:
    """The id, once known, says which cluster this is: another one is another Cluster."""
    before, now = dig(review.old, "spec.id"), dig(review.new, "spec.id")
    if review.new is None or review.subresource or not before or now == before:
        return ()
    return [invalid("spec.id", now, "field is immutable once it is set")]


CLUSTER = Checks(of_new(cluster), _id_stays)
RESOURCE_BINDING = Checks(only_mutable("suspension", "schedulePriority", "rescheduleTriggeredAt"))
QUEUE_UNIT = Checks(only_mutable("active", "priority", "priorityClassName", "maximumExecutionTimeSeconds"))
