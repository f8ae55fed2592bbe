"""The status that the hub shows of a job: that of its copy, with the hub's own conditions. Pure."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.controllers.observe.sight import Sight
from fleet.kinds import Interpreter
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.values.untyped import rows
from fleet.wellknown import GANG_WHOLE, LOST, PENDING, QUEUING, RESIZED, SCHEDULED


def job_status(binding: Body, interpreter: Interpreter, sight: Sight | None, now: float) -> Body:
    status: Body | None = None
    if sight is not None:
        status = (sight.copy or {}).get("status") or next((item.get("status") for item in b.copies_of(binding)), None)
    own, stopped = _own_condition(binding, interpreter), _suspended(binding, interpreter)
    if own and own["type"] == PENDING:
        return {**interpreter.first_status, "conditions": [one for one in (own, stopped) if one]}
    merged = interpreter.merge_status({"conditions": [own]} if own else {}, status)
    if running := _shown_by_pods(binding, interpreter, sight):
        merged["conditions"] = [*(merged.get("conditions") or ()), running]
    if lost := _shown_lost(binding, interpreter, sight, now):
        merged["conditions"] = _ended(merged.get("conditions"), lost)
    if stopped:
        merged["conditions"] = [*(merged.get("conditions") or ()), stopped]
    for type_ in (RESIZED, b.REACHABLE):
        told = condition(binding, type_)
        if told is None or told["status"] != "False":
            continue
        shown_as = interpreter.condition(type_, "False", told["reason"], told["message"], told["lastTransitionTime"])
        if shown_as:  # first, so that the last one stays what the job's STATE shows
            merged["conditions"] = [shown_as, *(merged.get("conditions") or ())]
    return merged


def _shown_by_pods(binding: Body, interpreter: Interpreter, sight: Sight | None) -> Body | None:
    """The condition Running of a job whose own status never says so."""
    started = condition(binding, GANG_WHOLE)
    if sight is None or not sight.by_pods or started is None or started["status"] != "True":
        return None
    return interpreter.condition("Running", "True", "PodsRunning", "every pod runs", started["lastTransitionTime"])


def _own_condition(binding: Body, interpreter: Interpreter) -> Body | None:
    """The hub's own condition: queuing, with the reason why it still waits; or pending, outside of queues. Empty for a
    kind whose status has no conditions."""
    why, queuing = condition(binding, SCHEDULED), condition(binding, QUEUING)
    waiting = why is not None and why["status"] == "False" and not b.clusters_of(binding)
    if queuing is not None:
        message = str(why["message"]) if waiting and why is not None else queuing.get("message", "")
        at = queuing["lastTransitionTime"]
        return interpreter.condition(QUEUING, queuing["status"], queuing["reason"], message, at)
    if waiting and why is not None:
        return interpreter.condition(PENDING, "True", why["reason"], why["message"], why["lastTransitionTime"])
    return None


def _suspended(binding: Body, interpreter: Interpreter) -> Body | None:
    """The condition Suspended that tools wait for, of a job that its user suspended and that has left its member. Its
    controller would write it, and is in no member that has the job."""
    if not b.suspended(binding) or b.clusters_of(binding) or b.tasks_of(binding) or b.finished(binding):
        return None
    told = condition(binding, SCHEDULED) or condition(binding, QUEUING)
    if told is None:
        return None
    message = "its user suspended the job"
    return interpreter.condition("Suspended", "True", "JobSuspended", message, told["lastTransitionTime"])


def _shown_lost(binding: Body, interpreter: Interpreter, sight: Sight | None, now: float) -> Body | None:
    """The condition Failed of a job whose copy never said so, since it is gone."""
    if sight is None or not sight.lost:
        return None
    over = condition(binding, b.FINISHED)
    at = over["lastTransitionTime"] if over is not None else rfc3339(now)
    return interpreter.condition("Failed", "True", LOST, sight.message, at)


def _ended(conditions: object, end: Body) -> list[Body]:
    """The conditions of a job that runs no more, with its end last."""
    return [*({**c, "status": "False"} if c.get("type") == "Running" else c for c in rows(conditions)), end]
