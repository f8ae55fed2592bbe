"""A job that has its room is not made larger, since it would run on quota and room that no decision gave it.

While a job waits, any size may be asked for, and the job is decided anew. Once it has left its queue, or runs outside
of one, a change may ask for less of anything, and for more of nothing. The job's own status tells, which the hub alone
writes. A change in the moment before it says so is refused where manifests are sent (dispatch/outgoing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.admission.quotalabels import holds_quota
from fleet.engine.status import Cause
from fleet.kinds.interpreter import Interpreter, State
from fleet.model.charge import beyond
from fleet.model.quantity import BadQuantity
from fleet.model.untyped import at, rows, text
from fleet.objects.writing import Review
from fleet.ports import Body
from fleet.wellknown import PENDING, QUEUING

_PLACED = (State.CREATED, State.RUNNING)


def stays_in_size(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of one job."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.old is None or review.subresource == "status":
            return ()
        if not has_room(review.old, interpreter):
            return ()
        try:
            before, after = interpreter.components(review.old), interpreter.components(review.new)
        except BadQuantity:
            return ()  # said by the check of its pods
        more = beyond(after, before)
        if not more:
            return ()
        why = "it runs with what it was admitted with; suspend it, or delete it and submit it anew, to make it larger"
        fields = {t.name: f"{t.path}".removesuffix(".template") for t in interpreter.templates(review.new)}
        return [
            Cause(fields.get(excess.component, "spec"), f"Forbidden: {excess.text}: {why}", "FieldValueForbidden")
            for excess in more
        ]

    return check


def has_room(job: Body, interpreter: Interpreter) -> bool:
    """Whether its status says that it left its queue, or runs outside of one, and is not over."""
    told = {text(c.get("type")): c.get("status") for c in rows(at(job, "status", "conditions"))}
    if QUEUING in told:
        return holds_quota(job)
    return told.get(PENDING) != "True" and interpreter.state(job.get("status")).state in _PLACED
