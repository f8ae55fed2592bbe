"""The reading of a QueueUnit, in one place: its phase, its queue, its requests, its reason to wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.values.ports import Body, Key, StoredObject
from fleet.values.times import seconds
from fleet.values.untyped import digits, mapping, number, rows, text
from fleet.wellknown import ANNOTATION_WALLTIME, QUEUE, UNIT_SUFFIX, WORK, unit_name

ENQUEUED, BACKING_OFF, RESERVED, DEQUEUED = "Enqueued", "TimeoutBackoff", "Reserved", "Dequeued"  # phases
RUNNING, SUCCEEDED, FAILED = "Running", "Succeed", "Failed"
QUEUED_PHASES = (ENQUEUED, BACKING_OFF)
PLACED_PHASES = (DEQUEUED, RUNNING, SUCCEEDED, FAILED)
EVICTED, QUOTA_RESERVED = "Evicted", "QuotaReserved"  # conditions
LIMIT_DIGITS = 11  # of a job's seconds: a longer limit ends where no calendar reaches, and is none


def phase_of(unit: Body | None) -> str:
    """ "" for no unit, and for a unit that no loop has looked at."""
    return text(b.status_of(unit).get("phase"))


def unit_key(binding: Key) -> Key:
    return Key(QUEUE, "queueunits", binding.namespace, unit_name(binding.name))


def unit_of(peek: Callable[[Key], StoredObject | None], binding: Key, uid: str) -> StoredObject | None:
    """The unit of the binding with this key and this uid; None also while the unit of an earlier binding of the name is
    still there."""
    found = peek(unit_key(binding))
    return found if found is not None and owned_by(found.body, uid) else None


def owned_by(unit: Body, uid: str) -> bool:
    """Whether it is the unit of the binding with this uid."""
    return any(owner.get("uid") == uid for owner in rows(unit["metadata"].get("ownerReferences")))


def binding_of(unit: StoredObject) -> Key:
    """The key of its binding: the one that it names, else by its own name."""
    name = text(mapping(b.spec_of(unit.body).get("consumerRef")).get("name"))
    return Key(WORK, "resourcebindings", unit.key.namespace, name or unit.key.name.removesuffix(UNIT_SUFFIX))


def in_queue(unit: Body | None) -> bool:
    """Whether the unit is in its queue: without its room, and not over."""
    return phase_of(unit) in ("", *QUEUED_PHASES)


def active(unit: Body | None) -> bool:
    """False while a person, or the end of its time, keeps it from starting."""
    return b.spec_of(unit).get("active") is not False


def queue_of(unit: Body | None) -> str:
    """The name of its Queue; "" without one."""
    return text(b.spec_of(unit).get("queue"))


def priority_of(unit: Body | None, binding: Body) -> int:
    """The unit's, which a person may change; without one, its binding's. Raises ValueError for what is no number."""
    chosen = b.spec_of(unit).get("priority")
    return b.priority_of(binding) if chosen is None else number(chosen)


def walltime_of(unit: Body | None) -> int | None:
    """Seconds that it may run before the hub evicts it; None: no limit. Raises ValueError for what is no number."""
    limit = b.spec_of(unit).get("maximumExecutionTimeSeconds")
    return number(limit) if limit else None


def limit_of(unit: Body | None, binding: Body) -> int | None:
    """Seconds that the job may run: the smaller of its unit's limit, at which the hub evicts it, and of its own, at
    which its member ends it. None: no limit. Raises ValueError for what is no number."""
    own = digits(b.annotation(binding, ANNOTATION_WALLTIME), LIMIT_DIGITS)
    return min((limit for limit in (walltime_of(unit), own) if limit), default=None)


def requeue_at(unit: Body | None) -> float | None:
    """When a unit that backs off may start again."""
    return seconds(text(mapping(b.status_of(unit).get("requeueState")).get("requeueAt")))


def reason_of(unit: Body | None) -> Mapping[str, Any]:
    """Why it waits: {code, numbers}; empty when nothing is said."""
    return mapping(b.status_of(unit).get("reason"))


def message_of(unit: Body | None) -> str:
    """The same for people."""
    return text(b.status_of(unit).get("message"))


def charged_of(unit: Body | None) -> Mapping[str, Any]:
    """The quantities that it is charged while it uses quota: its requests, or those of its member's pods where these
    are more."""
    return mapping(b.status_of(unit).get("charged")) or mapping(b.spec_of(unit).get("resource"))


def evicted(unit: Body | None) -> dict[str, Any] | None:
    """The condition that tells of its last eviction."""
    return condition(unit or {}, EVICTED)
