"""How a job stands, concluded from the job, its ResourceBinding and its QueueUnit.

Pure functions over bodies. Nothing of this is stored: every conclusion is drawn anew for each request. fleet/bindings
reads the fields, as it does for the controllers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from api.engine.kind import Kind
from fleet.admission.selecting import UNTAKEN
from fleet.bindings import binding as b
from fleet.bindings.components import components_of
from fleet.bindings.conditions import condition, conditions_of
from fleet.bindings.failures import failures_of
from fleet.bindings.faults import moves_again
from fleet.bindings.nomination import CHECKS, reserved_placement_of
from fleet.bindings.rules import BadRules, rules_of
from fleet.bindings.unit import (
    BACKING_OFF,
    EVICTED,
    FAILED,
    RESERVED,
    SUCCEEDED,
    active,
    charged_of,
    in_queue,
    message_of,
    phase_of,
    priority_of,
)
from fleet.bindings.unit import (
    reason_of as unit_reason,
)
from fleet.core.foresee.position import NOT_IN_LINE
from fleet.core.model.reason import Code
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Component
from fleet.kinds import interpreter, kind_word
from fleet.kinds.lookup import interpreter_for
from fleet.rest.quantities import add, amounts_of, gpus, quantities
from fleet.rest.states import State
from fleet.values.ports import Body, Key
from fleet.values.quantity import BadQuantity
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping, rows, text, whole
from fleet.values.wellknown import HANDLING_FAILED
from fleet.wellknown import (
    ANNOTATION_CREATOR,
    ANNOTATION_POLICY,
    FULLY_APPLIED,
    NAME_TAKEN,
    NO_POLICY,
    RESIZED,
    SCHEDULED,
)

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/queueunits"
NOBODY_DECIDES = "NobodyDecides"
PODS_REMAIN = "PodsRemain"
STARTS_ANEW = "StartsAnew"  # of a failed job; clients that wait for its end go on
_OF_MEMBER = {
    interpreter.JobState.CREATED: State.CREATED,
    interpreter.JobState.RUNNING: State.RUNNING,
    interpreter.JobState.SUCCEEDED: State.SUCCEEDED,
    interpreter.JobState.FAILED: State.FAILED,
    interpreter.JobState.SUSPENDED: State.SUSPENDED,
    interpreter.JobState.UNKNOWN: State.PLACED,
}
_FINISHED = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}
_OF_PHASE = {
    SUCCEEDED: State.SUCCEEDED,
    FAILED: State.FAILED,
    BACKING_OFF: State.BACK_OFF,
    RESERVED: State.RESERVED,
}


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job with what belongs to it; `binding` None: no policy has taken it. `queue`: full path of its leaf."""

    kind: Kind
    body: Body
    binding: Body | None = None
    unit: Body | None = None
    queue: str | None = None
    silence: str = ""  # since when there is no decider, and why; "" while there is one
    selected_by: str = ""  # the policy that selects a job without a binding
    in_the_way: str = ""  # why it has no binding yet: that of an earlier job of its name stays with its copy
    untaken: str = UNTAKEN  # why none does


def waits(unit: Body) -> bool:
    """Whether a unit is in its queue, and not held by a person."""
    return in_queue(unit) and active(unit)


def in_line(unit: Body) -> bool:
    """Whether a unit that waits is considered now. Its phase tells of a back-off: its reason may be older."""
    code = unit_reason(unit).get("code")
    return phase_of(unit) != BACKING_OFF and (code == Code.BACK_OFF or code not in NOT_IN_LINE)


def tier(unit: Body) -> Tier | None:
    """The tier of a unit, where its reason says."""
    return Tier.of_word(mapping(unit_reason(unit).get("numbers")).get("tier"))


def charged(binding: Body, unit: Body | None = None) -> bool:
    """Whether it uses quota: Reserved, placed and not over, on its way out, or over with pods that still run. The hub's
    API sees no pods: its unit says of them."""
    return phase_of(unit) == RESERVED or b.charged(binding, ()) or remaining(binding, unit)


def remaining(binding: Body, unit: Body | None) -> bool:
    """Whether the job is over, and pods of it still run."""
    return b.finished(binding) and bool(b.status_of(unit).get("charged"))


def charged_amounts(unit: Body) -> dict[str, int]:
    """The charge of a unit that uses quota: its requests, or those of its member's pods where these are more. A
    Reserved unit that is to start at its smallest is charged for that."""
    reserved_placement = reserved_placement_of(unit)
    if reserved_placement is None or not reserved_placement.replicas:
        return amounts_of(charged_of(unit))
    replicas, found = dict(reserved_placement.replicas), dict[str, int]()
    for part in rows(b.spec_of(unit).get("podSet")):
        count = replicas.get(text(part.get("name")), whole(part.get("count")))
        add(found, {name: count * each for name, each in amounts_of(part.get("requests")).items()})
    return found


def state_of(job: StoredJob) -> State:
    """One word."""
    if "deletionTimestamp" in job.body["metadata"]:
        return State.DELETING
    if job.binding is None:
        return State.UNCLAIMED
    if b.tasks_of(job.binding):
        return State.EVICTING
    finished = _FINISHED.get(b.outcome_of(job.binding))
    if finished is not None:
        return finished
    if b.clusters_of(job.binding):
        return _OF_MEMBER[_in_member(job)[0]]
    if job.unit is None:
        return State.QUEUED if b.queued(job.binding) else State.WAITING
    if b.suspended(job.binding):
        return State.SUSPENDED
    if not active(job.unit) or _is_held(job.unit):
        return State.HELD
    return _OF_PHASE.get(phase_of(job.unit), State.QUEUED)


def _is_held(unit: Body) -> bool:
    """Whether a unit that waits is kept from starting on its job, since too many attempts came to nothing, or since
    a job before it has failed."""
    return in_queue(unit) and unit_reason(unit).get("code") in (Code.HELD, Code.NEVER_AFTER)


def reason_of(job: StoredJob, state: State) -> dict[str, Any] | None:
    """Why it waits, or its trouble in its member; None when there is nothing to say. A loop that cannot handle it comes
    first: any other stored state may be old."""
    if failed := _unhandled(job):
        return _reason(HANDLING_FAILED, text(failed.get("message")))
    if state is State.UNCLAIMED and job.silence:
        return _reason(NOBODY_DECIDES, f"whether a policy takes it is not known: {job.silence}")
    if state is State.UNCLAIMED and job.in_the_way:
        return _reason(NAME_TAKEN, job.in_the_way)
    if state is State.UNCLAIMED:
        taken = f"{job.selected_by} selects it and has not taken it yet; if that lasts, its events say why"
        return _reason(NO_POLICY, taken if job.selected_by else f"no policy takes it: {job.untaken}")
    if job.binding is None or state is State.DELETING:
        return None
    message, reason = message_of(job.unit), unit_reason(job.unit)
    remains = _left(job.binding, job.unit)
    if state is State.SUCCEEDED:
        return _reason(PODS_REMAIN, remains) if remains else None
    if state is State.FAILED:
        told = condition(job.binding, b.FINISHED) or {}
        why = message or text(told.get("message")) or _in_member(job).message or "it has failed"
        return _reason(_code_of_failure(job.binding), f"{why.rstrip('.')}; {remains}" if remains else why)
    for task in b.tasks_of(job.binding):
        return _reason(text(task.get("reason")) or "Evicted", text(task.get("message")))
    if reason.get("code"):
        return _reason(str(reason["code"]), message, reason.get("numbers"))
    if b.member_of(job.binding) is not None:
        troubles = (_unless_true(job.binding, type_) for type_ in (b.REACHABLE, RESIZED, FULLY_APPLIED))
        return next((trouble for trouble in troubles if trouble is not None), None)
    return _unless_true(job.binding, SCHEDULED)


def _code_of_failure(binding: Body) -> str:
    return STARTS_ANEW if moves_again(binding) else "JobFailed"


def _left(binding: Body, unit: Body | None) -> str:
    """The charge of a job that is over while its pods run; "" for none."""
    if unit is None or not remaining(binding, unit):
        return ""
    amounts = ", ".join(f"{amount} {name}" for name, amount in quantities(charged_amounts(unit)).items())
    return f"its pods still run in {b.member_of(binding)}, and are charged: {amounts}"


def row(job: StoredJob, position: int | None) -> dict[str, Any]:
    """The job as models.Job describes it; `position` counts only while it waits in its queue."""
    metadata, binding = job.body["metadata"], job.binding
    state = state_of(job)
    member = b.member_of(binding)
    member_status = _member_status(binding)
    components = _components(job)
    place = position if state is State.QUEUED else None
    rank = tier(job.unit) if job.unit is not None else None
    return {
        "namespace": metadata.get("namespace", ""),
        "kind": kind_word(job.kind.group, job.kind.kind),
        "name": metadata["name"],
        "state": str(state),
        "queue": job.queue,
        "position": place,
        "tier": rank.word if place is not None and rank is not None else None,
        "priority": priority_of(job.unit, binding) if binding is not None else None,
        "member": member,
        "attempt": b.attempt(binding) if binding is not None else 0,
        "reason": reason_of(job, state),
        "gpus": gpus(_asked(components)),
        "pods": sum(component.replicas for component in components),
        "user": b.annotation(job.body, ANNOTATION_CREATOR) or None,
        "created": metadata.get("creationTimestamp"),
        "enqueued": (b.enqueued(binding) or None) if binding is not None and job.unit is not None else None,
        "placed": (b.placed_at(binding) or None) if binding is not None and member is not None else None,
        "started": member_status.get("startTime"),
        "finished": member_status.get("completionTime"),
    }


def unreadable(kind: Kind, key: Key) -> dict[str, Any]:
    """A row for a job of which something that is stored cannot be read."""
    why = "what is stored of it cannot be read: its conditions and Events may say why"
    return {
        "namespace": key.namespace,
        "kind": kind_word(kind.group, kind.kind),
        "name": key.name,
        "state": str(State.WAITING),
        "queue": None,
        "position": None,
        "tier": None,
        "priority": None,
        "member": None,
        "attempt": 0,
        "reason": _reason(HANDLING_FAILED, why),
        "gpus": 0,
        "pods": 0,
        "user": None,
        "created": None,
        "enqueued": None,
        "placed": None,
        "started": None,
        "finished": None,
    }


def _path(collection: str, body: Body | None) -> str | None:
    """In the Kubernetes API."""
    if body is None:
        return None
    metadata = body["metadata"]
    return f"{collection.format(namespace=metadata.get('namespace', ''))}/{metadata['name']}"


def detail(job: StoredJob, position: int | None) -> dict[str, Any]:
    """The job as models.JobDetail describes it."""
    metadata, binding, components = job.body["metadata"], job.binding, _components(job)
    reader = interpreter_for(job.kind)
    group_path = f"/apis/{job.kind.api_version}" if job.kind.group else f"/api/{job.kind.version}"
    return {
        **row(job, position),
        "uid": metadata.get("uid", ""),
        "policy": (b.annotation(binding, ANNOTATION_POLICY) or None) if binding is not None else None,
        "requests": quantities(_asked(components)),
        "components": [
            {"name": one.name, "replicas": one.replicas, "requests": quantities(_asked([replace(one, replicas=1)]))}
            for one in components
        ],
        "rules": _rules(binding),
        "conditions": _told(job),
        "checks": _checks(job.unit),
        "failures": _failures(binding) if binding is not None else [],
        "object": f"{group_path}/namespaces/{metadata.get('namespace', '')}/{job.kind.resource}/{metadata['name']}",
        "binding": _path(BINDINGS, job.binding),
        "unit": _path(UNITS, job.unit),
        "suspend_field": (reader.suspend_field or None) if reader is not None else None,
    }


def _unhandled(job: StoredJob) -> Mapping[str, Any] | None:
    """The condition HandlingFailed of the job, or of what the hub keeps for it."""
    bodies = (job.binding, job.unit, job.body)
    return next((found for body in bodies if body and (found := condition(body, HANDLING_FAILED))), None)


def _rules(binding: Body | None) -> list[dict[str, Any]]:
    try:
        return [asdict(rule) for rule in rules_of(binding)] if binding is not None else []
    except BadRules:
        return []  # its condition says so


def _told(job: StoredJob) -> Sequence[Mapping[str, Any]]:
    """The conditions of its binding, and of the others those that a binding does not have."""
    told = [*conditions_of(job.binding), *(c for c in conditions_of(job.unit) if c.get("type") == EVICTED)]
    failed = _unhandled(job)
    return told if failed is None or failed in told else [*told, failed]


def _checks(unit: Body | None) -> list[dict[str, Any]]:
    """The admission checks of a unit that is Reserved, as they were answered."""
    checks = rows(b.status_of(unit).get(CHECKS)) if phase_of(unit) == RESERVED else []
    return [
        {
            **{field: text(entry.get(field)) for field in ("name", "state", "message")},
            "since": text(entry.get("lastTransitionTime")) or None,
        }
        for entry in checks
    ]


def _reason(code: str, why: str, numbers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"code": code, "text": why, "numbers": dict(numbers or {})}


def _unless_true(binding: Body, type_: str) -> dict[str, Any] | None:
    """A condition that does not hold, as a reason."""
    found = condition(binding, type_)
    if found is None or found.get("status") == "True":
        return None
    return _reason(str(found.get("reason") or type_), str(found.get("message") or ""))


def _member_status(binding: Body | None) -> Body:
    """The member's status of the job; of several members, the first."""
    return next((dict(mapping(copy.get("status"))) for copy in b.copies_of(binding)), {})


def _in_member(job: StoredJob) -> interpreter.Standing:
    reader = interpreter_for(job.kind)
    if reader is None:
        return interpreter.Standing(interpreter.JobState.UNKNOWN)
    return reader.state(_member_status(job.binding))


def _components(job: StoredJob) -> tuple[Component, ...]:
    """The components that it was admitted with, else those of the job; none where they cannot be read."""
    reader = interpreter_for(job.kind)
    try:
        if job.binding is not None:
            return components_of(job.binding)
        return tuple(reader.components(job.body)) if reader is not None else ()
    except BadQuantity:
        return ()


def _asked(components: Sequence[Component]) -> dict[str, int]:
    """The sum of the requests of all their pods."""
    total: dict[str, int] = {}
    for component in components:
        add(total, {name: amount for name, amount in component.requests.items_ if name != "pods"}, component.replicas)
    return total


def _failures(binding: Body) -> list[dict[str, Any]]:
    """The attempts that came to nothing; none where one has a time that cannot be written."""
    try:
        return [
            {
                "member": failure.member,
                "at": rfc3339(failure.at) if failure.at else None,
                "reason": failure.reason,
                "message": failure.message,
            }
            for failure in failures_of(binding)
        ]
    except (ValueError, OverflowError, OSError):
        return []
