"""How a job stands, read off what is stored of it: the job, its ResourceBinding and its QueueUnit.

Pure functions over bodies. Nothing of this is stored anywhere: docs/reference/objects.md says who writes what is read
here, and every conclusion is drawn anew when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from api.v1.models import State
from api.v1.quantities import amounts_of, gpus, quantities, whole
from fleet.admission.selecting import UNTAKEN
from fleet.engine.kind import Kind
from fleet.foresee.position import NOT_IN_LINE, tier_of
from fleet.kinds import interpreter
from fleet.kinds.lookup import interpreter_for
from fleet.model.quantity import BadQuantity
from fleet.model.reason import Code
from fleet.model.times import rfc3339, seconds
from fleet.model.untyped import mapping, text
from fleet.ports import Body, Key
from fleet.wellknown import (
    ANNOTATION_ENQUEUED,
    ANNOTATION_POLICY,
    ANNOTATION_RETRIES,
    ATTEMPT,
    FULLY_APPLIED,
    HANDLING_FAILED,
    NO_POLICY,
    SCHEDULED,
)

REACHABLE, FINISHED = "MemberReachable", "Finished"  # conditions of a binding, set by the controllers
EVICTED = "Evicted"  # of a unit, likewise
NOBODY_DECIDES = "NobodyDecides"
BACKS_OFF = "TimeoutBackoff"
WAITING_PHASES = ("", "Enqueued", BACKS_OFF)
_OF_MEMBER = {
    interpreter.State.CREATED: State.CREATED,
    interpreter.State.RUNNING: State.RUNNING,
    interpreter.State.SUCCEEDED: State.SUCCEEDED,
    interpreter.State.FAILED: State.FAILED,
    interpreter.State.SUSPENDED: State.SUSPENDED,
    interpreter.State.UNKNOWN: State.PLACED,
}
_FINISHED = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}
_OF_PHASE = {
    "Succeed": State.SUCCEEDED,
    "Failed": State.FAILED,
    BACKS_OFF: State.BACK_OFF,
    "Reserved": State.RESERVED,
}


@dataclass(frozen=True, slots=True)
class Stands:
    """A job with what belongs to it; `binding` None: no policy has taken it. `queue`: full path of its leaf."""

    kind: Kind
    body: Body
    binding: Body | None = None
    unit: Body | None = None
    queue: str | None = None
    silence: str = ""  # since when nobody decides, and why; "" while somebody does
    selected_by: str = ""  # the policy that selects a job without a binding


def spec_of(binding: Body | None) -> Body:
    """Its spec; {} for none, and for a binding that somebody wrote by hand without one."""
    return dict(mapping((binding or {}).get("spec")))


def waits(unit: Body) -> bool:
    """Whether a unit is in its queue, and not held by a person."""
    phase = (unit.get("status") or {}).get("phase") or ""
    return phase in WAITING_PHASES and (unit.get("spec") or {}).get("active") is not False


def in_line(unit: Body) -> bool:
    """Whether one that waits is considered now. That it backs off says its phase: its reason may be older."""
    status = unit.get("status") or {}
    code = (status.get("reason") or {}).get("code")
    return status.get("phase") != BACKS_OFF and (code == Code.BACK_OFF or code not in NOT_IN_LINE)


def tier(unit: Body) -> str | None:
    """What a unit may count on: Guaranteed, Share, Crossing or Borrowed, where its reason says."""
    return tier_of(((unit.get("status") or {}).get("reason") or {}).get("numbers") or {})


def member_of(binding: Body | None) -> str | None:
    """The member that it is in or is leaving."""
    spec = spec_of(binding)
    for entry in spec.get("gracefulEvictionTasks") or ():
        return str(entry["fromCluster"])
    for entry in spec.get("clusters") or ():
        return str(entry["name"])
    return None


def priority_of(binding: Body, unit: Body | None) -> int:
    """What its unit says, which a person may change; without one, what its job says."""
    chosen = ((unit or {}).get("spec") or {}).get("priority")
    return int(chosen if chosen is not None else (spec_of(binding).get("schedulePriority") or {}).get("priority") or 0)


def enqueued_at(binding: Body) -> str | None:
    """When it was first enqueued: kept over re-queueing."""
    found = annotation(binding, ANNOTATION_ENQUEUED) or binding["metadata"].get("creationTimestamp")
    return str(found) if found else None


def charged(binding: Body, unit: Body | None = None) -> bool:
    """Whether it uses quota: Reserved, placed and not finished, or on its way out."""
    spec = spec_of(binding)
    if ((unit or {}).get("status") or {}).get("phase") == "Reserved":
        return True
    if spec.get("gracefulEvictionTasks"):
        return True
    return bool(spec.get("clusters")) and _finished(binding) is None


def charged_amounts(unit: Body) -> dict[str, int]:
    """What a unit that uses quota is charged: what it asks for, or what its member runs where that is more."""
    return amounts_of((unit.get("status") or {}).get("charged") or (unit.get("spec") or {}).get("resource"))


def annotation(body: Body, name: str) -> str:
    return text(mapping(body["metadata"].get("annotations")).get(name))


def state_of(job: Stands) -> State:
    """One word."""
    if "deletionTimestamp" in job.body["metadata"]:
        return State.DELETING
    if job.binding is None:
        return State.UNCLAIMED
    spec = spec_of(job.binding)
    if spec.get("gracefulEvictionTasks"):
        return State.EVICTING
    finished = _finished(job.binding)
    if finished is not None:
        return finished
    if spec.get("clusters"):
        return _OF_MEMBER[_in_member(job)[0]]
    if job.unit is None:
        return State.QUEUED if (spec.get("suspension") or {}).get("scheduling") else State.WAITING
    if (job.unit.get("spec") or {}).get("active") is False or _is_held(job.unit):
        return State.HELD
    return _OF_PHASE.get((job.unit.get("status") or {}).get("phase") or "", State.QUEUED)


def _is_held(unit: Body) -> bool:
    """Whether one that waits is kept from starting on its job, or since too many attempts came to nothing."""
    status = unit.get("status") or {}
    return status.get("phase") in WAITING_PHASES and (status.get("reason") or {}).get("code") == Code.HELD


def reason_of(job: Stands, state: State) -> dict[str, Any] | None:
    """Why it waits, or what is wrong where it is; None when there is nothing to say. That a loop cannot handle it comes
    first: whatever else is stored may be old."""
    if failed := _unhandled(job):
        return _reason(HANDLING_FAILED, text(failed.get("message")))
    if state is State.UNCLAIMED and job.silence:
        return _reason(NOBODY_DECIDES, f"whether a policy takes it is not known: {job.silence}")
    if state is State.UNCLAIMED:
        taken = f"{job.selected_by} selects it and has not taken it yet; if that lasts, its events say why"
        return _reason(NO_POLICY, taken if job.selected_by else f"no policy takes it: {UNTAKEN}")
    if job.binding is None or state in (State.DELETING, State.SUCCEEDED):
        return None
    status = (job.unit or {}).get("status") or {}
    said = str(status.get("message") or "")
    if state is State.FAILED:
        why = said or str((_condition(job.binding, FINISHED) or {}).get("message") or _in_member(job).message)
        return _reason("JobFailed", why or "it has failed")
    for task in spec_of(job.binding).get("gracefulEvictionTasks") or ():
        return _reason(str(task.get("reason") or "Evicted"), str(task.get("message") or ""))
    reason = status.get("reason") or {}
    if reason.get("code"):
        return _reason(str(reason["code"]), said, reason.get("numbers"))
    if member_of(job.binding) is not None:
        return _unless_true(job.binding, REACHABLE) or _unless_true(job.binding, FULLY_APPLIED)
    return _unless_true(job.binding, SCHEDULED)


def row(job: Stands, position: int | None) -> dict[str, Any]:
    """The job as models.Job describes it; `position` counts only while it waits in its queue."""
    metadata, binding = job.body["metadata"], job.binding
    state = state_of(job)
    member = member_of(binding)
    status = (binding or {}).get("status") or {}
    theirs = _member_status(binding)
    asked, pods = _asked(job)
    place = position if state is State.QUEUED else None
    return {
        "namespace": metadata.get("namespace", ""),
        "kind": job.kind.kind,
        "name": metadata["name"],
        "state": str(state),
        "queue": job.queue,
        "position": place,
        "tier": tier(job.unit) if place is not None and job.unit is not None else None,
        "priority": priority_of(binding, job.unit) if binding is not None else None,
        "member": member,
        "attempt": _attempt(binding),
        "reason": reason_of(job, state),
        "gpus": gpus(asked),
        "pods": pods,
        "created": metadata.get("creationTimestamp"),
        "enqueued": enqueued_at(binding) if binding is not None and job.unit is not None else None,
        "placed": status.get("lastScheduledTime") if member is not None else None,
        "started": theirs.get("startTime"),
        "finished": theirs.get("completionTime"),
    }


def unreadable(kind: Kind, key: Key) -> dict[str, Any]:
    """A row for a job of which something that is stored cannot be read."""
    why = "what is stored of it cannot be read: its conditions and Events may say why"
    return {
        "namespace": key.namespace, "kind": kind.kind, "name": key.name, "state": str(State.WAITING), "queue": None,
        "position": None, "tier": None, "priority": None, "member": None, "attempt": 0,
        "reason": _reason(HANDLING_FAILED, why), "gpus": 0, "pods": 0, "created": None, "enqueued": None,
        "placed": None, "started": None, "finished": None,
    }  # fmt: skip


def detail(job: Stands, position: int | None) -> dict[str, Any]:
    """The job as models.JobDetail describes it."""
    metadata, binding = job.body["metadata"], job.binding
    group_path = f"/apis/{job.kind.api_version}" if job.kind.group else f"/api/{job.kind.version}"
    return {
        **row(job, position),
        "uid": metadata.get("uid", ""),
        "policy": (annotation(binding, ANNOTATION_POLICY) or None) if binding is not None else None,
        "requests": quantities(_asked(job)[0]),
        "components": _components(job),
        "conditions": _told(job),
        "failures": _failures(binding),
        "object": f"{group_path}/namespaces/{metadata.get('namespace', '')}/{job.kind.resource}/{metadata['name']}",
    }


def _unhandled(job: Stands) -> Mapping[str, Any] | None:
    """The condition HandlingFailed of the job, or of what the hub keeps for it."""
    bodies = (job.binding, job.unit, job.body)
    return next((found for body in bodies if body and (found := _condition(body, HANDLING_FAILED))), None)


def _told(job: Stands) -> list[Mapping[str, Any]]:
    """The conditions of its binding, and of the others those that a binding does not have."""
    told = [*_conditions(job.binding), *(c for c in _conditions(job.unit) if c.get("type") == EVICTED)]
    failed = _unhandled(job)
    return told if failed is None or failed in told else [*told, failed]


def _reason(code: str, why: str, numbers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"code": code, "text": why, "numbers": dict(numbers or {})}


def _conditions(body: Body | None) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = ((body or {}).get("status") or {}).get("conditions") or ()
    return found


def _condition(binding: Body, type_: str) -> Mapping[str, Any] | None:
    for entry in _conditions(binding):
        if entry.get("type") == type_:
            found: Mapping[str, Any] = entry
            return found
    return None


def _unless_true(binding: Body, type_: str) -> dict[str, Any] | None:
    """A condition that does not hold, as a reason."""
    found = _condition(binding, type_)
    if found is None or found.get("status") == "True":
        return None
    return _reason(str(found.get("reason") or type_), str(found.get("message") or ""))


def _finished(binding: Body) -> State | None:
    found = _condition(binding, FINISHED)
    if found is None or found.get("status") != "True":
        return None
    return _FINISHED.get(str(found.get("reason")))


def _member_status(binding: Body | None) -> Body:
    for copy in ((binding or {}).get("status") or {}).get("aggregatedStatus") or ():
        found: Body = copy.get("status") or {}
        return found
    return {}


def _in_member(job: Stands) -> interpreter.Standing:
    reader = interpreter_for(job.kind)
    if reader is None:
        return interpreter.Standing(interpreter.State.UNKNOWN)
    return reader.state(_member_status(job.binding))


def _attempt(binding: Body | None) -> int:
    said = annotation(binding, ATTEMPT) if binding is not None else ""
    return int(said) if said.isascii() and said.isdigit() and len(said) < 10 else 0


def _components(job: Stands) -> list[dict[str, Any]]:
    if job.binding is not None:
        return [
            {
                "name": str(component.get("name", "")),
                "replicas": int(component.get("replicas") or 0),
                "requests": quantities(amounts_of((component.get("replicaRequirements") or {}).get("resourceRequest"))),
            }
            for component in spec_of(job.binding).get("components") or ()
        ]
    reader = interpreter_for(job.kind)
    try:
        components = reader.components(job.body) if reader is not None else ()
    except BadQuantity:
        return []
    return [
        {
            "name": component.name,
            "replicas": component.replicas,
            "requests": quantities({name: n for name, n in component.requests.items_ if name != "pods"}),
        }
        for component in components
    ]


def _asked(job: Stands) -> tuple[dict[str, int], int]:
    """What all its pods ask for together, and how many they are."""
    if job.binding is not None:
        return whole(spec_of(job.binding).get("components") or ())
    return whole(
        {**component, "replicaRequirements": {"resourceRequest": component["requests"]}}
        for component in _components(job)
    )


def _failures(binding: Body | None) -> list[dict[str, Any]]:
    """From the annotation; what a person made unreadable counts as none."""
    told = annotation(binding, ANNOTATION_RETRIES) if binding is not None else ""
    try:
        return [
            {
                "member": str(entry.get("member", "")),
                "at": rfc3339(float(entry["at"])) if entry.get("at") else None,
                "reason": str(entry.get("reason", "")),
            }
            for entry in (orjson.loads(told) if told else ())
        ]
    except (ValueError, AttributeError, TypeError, OverflowError, OSError):
        return []


def waiting_since(binding: Body) -> float:
    """`enqueued_at` in epoch seconds."""
    return seconds(enqueued_at(binding) or "") or 0.0
