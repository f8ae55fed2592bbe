"""A unit that is Reserved: quota and room are its own, and it starts when all its checks have agreed.

Its QueueUnit's status says so. `nomination` is its member, and the inputs of that decision. `admissionChecks` are the
checks, each Pending until its service writes Ready or Rejected there. The decider counts such a unit as placed, so that
no other unit gets its quota and room; nothing is in the member yet, so giving it up costs nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fleet.bindings import binding as b
from fleet.bindings import claims, heads
from fleet.bindings.conditions import set_condition
from fleet.bindings.failures import AttemptFailure, backoff_until, backoffs, failures_text
from fleet.bindings.matching import labels_match
from fleet.bindings.nomination import CHECKS, NOMINATION, PENDING, ReservedPlacement, to_body
from fleet.bindings.unit import BACKING_OFF, ENQUEUED, QUOTA_RESERVED, RESERVED, queue_of
from fleet.controllers.fields import rooms
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.core.model.reason import Code, Reason
from fleet.core.quota.parse import DEPTH_MAX
from fleet.kinds import interpreter_of
from fleet.values.ports import Body
from fleet.values.times import instant, rfc3339
from fleet.values.untyped import digits, rows, text
from fleet.wellknown import (
    ANNOTATION_CHECKS_TIMEOUT,
    ANNOTATION_QUOTA_FULLNAME,
    ANNOTATION_QUOTA_PARENT,
    ANNOTATION_RETRIES,
    CLUSTER,
    QUEUE,
    QUEUE_NAMESPACE,
    SCHEDULED,
)

PATIENCE_MAX_S = 10 * 365 * 86400.0  # for admission checks; times beyond cannot be written down


class Queues:
    """The Queues of the tree as they are now, to be asked for those above each."""

    def __init__(self, bodies: Iterable[Body]) -> None:
        self._by_name: dict[str, Body] = {}
        self._by_path: dict[str, Body] = {}
        for body in bodies:
            self._by_name[body["metadata"]["name"]] = body
            self._by_path.setdefault(b.annotation(body, ANNOTATION_QUOTA_FULLNAME), body)

    @classmethod
    def of(cls, hub: Hub) -> Queues:
        return cls(hub.bodies(QUEUE, "queues", QUEUE_NAMESPACE))

    def line(self, name: str) -> tuple[Body, ...]:
        """The Queue of this name, then those of the nodes above its own, the root's last."""
        queues: list[Body] = []
        queue = self._by_name.get(name)
        while queue is not None and len(queues) < DEPTH_MAX:
            queues.append(queue)
            parent = b.annotation(queue, ANNOTATION_QUOTA_PARENT)
            queue = self._by_path.get(parent) if parent else None
        return tuple(queues)


def asked_of(
    hub: Hub, queues: Queues, unit: Body, binding: Body, member: str
) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """The queue of a unit with those above it, and the checks that its job has to pass: those of any of them, and that
    its room in the member is held."""
    line = queues.line(queue_of(unit))
    resource = b.resource_of(binding)
    interpreter = interpreter_of(resource.get("apiVersion"), resource.get("kind"))
    gates = interpreter is not None and interpreter.gateable
    held = (rooms.CHECK,) if gates and rooms.driver_of(hub.peek(CLUSTER, "clusters", "", member)) is not None else ()
    if not any(b.spec_of(queue).get(CHECKS) for queue in line):
        return line, held
    key = object_key(hub.registry, b.resource_of(binding))
    job = hub.store.peek(key) if key is not None else None
    return line, (*required_checks(line, b.labels_of(job.body) if job is not None else {}), *held)


def required_checks(line: Iterable[Body], labels: Mapping[str, str]) -> tuple[str, ...]:
    """The checks of these queues that a job with these labels has to pass, in their order, each once."""
    asked = (check for queue in line for check in rows(b.spec_of(queue).get(CHECKS)))
    matching = (c for c in asked if labels_match(c.get("labelSelector"), labels))
    return tuple(dict.fromkeys(name for c in matching if (name := text(c.get("name")))))


def patience_s(line: Iterable[Body], default: float) -> float:
    """How long units wait for their checks: as the first of these queues says; a number that does not parse says
    nothing."""
    said = (digits(b.annotation(queue, ANNOTATION_CHECKS_TIMEOUT)) for queue in line)
    return next((min(float(seconds), PATIENCE_MAX_S) for seconds in said if seconds), default)


def answers(unit: Body, names: Sequence[str], now: float) -> list[Body]:
    """The entries of `status.admissionChecks`: the existing ones, and Pending for new ones."""
    there = {text(entry.get("name")): entry for entry in rows(b.status_of(unit).get(CHECKS))}
    new = {"state": PENDING, "message": "", "lastTransitionTime": rfc3339(now)}
    return [dict(there[name]) if name in there else {"name": name, **new} for name in names]


def reserve(unit: Body, placement: ReservedPlacement, names: Sequence[str], now: float) -> Body:
    """The unit, Reserved, in place: checks that answered before answer again."""
    reason = reason_of(placement, names)
    claims.release(unit)
    heads.nominate(unit, None)
    status = unit.setdefault("status", {})
    status.pop("requeueState", None)
    status.pop(CHECKS, None)
    status.update(
        phase=RESERVED,
        message=reason.text,
        reason={"code": str(reason.code), "numbers": reason.figures},
        lastUpdateTime=rfc3339(now),
        nomination=to_body(placement),
        admissionChecks=answers(unit, names, now),
    )
    set_condition(unit, QUOTA_RESERVED, True, QUOTA_RESERVED, "", now)
    return unit


def reason_of(placement: ReservedPlacement, names: Sequence[str]) -> Reason:
    numbers = {"member": placement.member, "checks": ", ".join(names), "until": instant(placement.until)}
    grows = {"grows": "true"} if placement.grows and rooms.CHECK in names else {}
    return Reason(Code.ADMISSION_CHECKS, {**numbers, **grows})


def tell_reserved(binding: Body, placement: ReservedPlacement, names: Sequence[str], now: float) -> Body:
    """The condition of its binding, and so of its job, meanwhile."""
    reason = reason_of(placement, names)
    set_condition(binding, SCHEDULED, False, str(reason.code), reason.text, now)
    return binding


def give_up(unit: Body) -> None:
    """Take what makes it Reserved out of the unit, in place; its phase is the caller's matter."""
    status = unit.setdefault("status", {})
    status.pop(NOMINATION, None)
    status.pop(CHECKS, None)
    status.pop("reason", None)


def back_in_queue(unit: Body, failures: Sequence[AttemptFailure], backs_off: bool, message: str, now: float) -> None:
    """The unit, Reserved no more, in place. `failures`: all of its binding; `backs_off`: the last is of this wait."""
    give_up(unit)
    until = backoff_until(failures) if backs_off else None
    unit["status"].update(
        phase=BACKING_OFF if until is not None else ENQUEUED, message=message, lastUpdateTime=rfc3339(now)
    )
    if until is not None:
        unit["status"]["requeueState"] = {"count": backoffs(failures), "requeueAt": rfc3339(until)}
    set_condition(unit, QUOTA_RESERVED, False, "AdmissionChecks", message, now)


def tell_back(binding: Body, failures: Sequence[AttemptFailure], reason: str, message: str, now: float) -> None:
    """Its binding says why it waits again, and how often it failed, in place."""
    if failures:
        binding["metadata"].setdefault("annotations", {})[ANNOTATION_RETRIES] = failures_text(failures)
    set_condition(binding, SCHEDULED, False, reason, message, now)
