"""A job that is over: nothing runs again, so a write that asks for it is refused, or answered with a warning.

A changed spec would be stored and never run, and the user would wait for it. Fields that act in the member after the
end (its time to live, which pods are cleaned away) may change. A failed job that its policy moves to another member is
not over: a change of it counts from the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from api.admission.causes import forbidden
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.bindings.faults import moves_again
from fleet.bindings.names import binding_of
from fleet.kinds.interpreter import Interpreter, JobState
from fleet.values.ports import Body
from fleet.values.untyped import at, mapping, rows, text
from fleet.wellknown.marks import TABLE

_AFTER_THE_END = ("cleanPodPolicy",)  # beside the times to live of the kind
_NESTED = "runPolicy"  # the field of a spec whose own fields are looked at


def over_stays_over(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of one job."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.old is None or review.subresource == "status":
            return ()
        standing = interpreter.state(review.old.get("status")).state
        if standing not in (JobState.SUCCEEDED, JobState.FAILED) or "deletionTimestamp" in review.old["metadata"]:
            return ()
        lives = interpreter.times_to_live
        changed = _changed(mapping(review.new.get("spec")), mapping(review.old.get("spec")), lives)
        if standing is JobState.FAILED and _moves(review):
            if changed:
                review.warnings.append(f"{_called(review)} has failed here: the change counts from its next attempt")
            return ()
        ended = _ended(review.old, standing)
        why = f"the job is finished ({ended}) and nothing runs again: delete it first, or use a new name"
        if not changed and _asks(review.new, review.old):
            said = f"{_called(review)} is finished ({ended}); nothing runs again: delete it first, or use a new name"
            review.warnings.append(said)
        return [forbidden(field, why) for field in changed]

    return check


def _called(review: Review) -> str:
    return f'{review.kind.kind} "{review.name}"'


def _ended(job: Body, state: JobState) -> str:
    """How and when: `Succeeded at 2026-11-22T10:00:00Z`."""
    final = ("Succeeded", "Complete") if state is JobState.SUCCEEDED else ("Failed",)
    told = [c for c in rows(at(job, "status", "conditions")) if c.get("type") in final and c.get("status") == "True"]
    when = text(told[-1].get("lastTransitionTime")) if told else ""
    return f"{state} at {when}" if when else str(state)


def _changed(new: Mapping[str, Any], old: Mapping[str, Any], lives: Sequence[str], where: str = "spec") -> list[str]:
    """The fields that differ and mean something to a job that is to run; `lives` mean something after its end."""
    fields = []
    for name in sorted({*new, *old}):
        before, now = old.get(name), new.get(name)
        if before == now or name in _AFTER_THE_END or (name == "suspend" and not before and not now):
            continue  # false is the default of suspend, and is filled in beside other fields
        if name == _NESTED:
            fields += _changed(mapping(now), mapping(before), lives, f"{where}.{name}")
        elif not any(f"{path}.".startswith(f"{where}.{name}.") for path in lives):
            fields.append(f"{where}.{name}")
    return fields


def _asks(new: Body, old: Body) -> bool:
    """Whether a write that leaves the spec as it is asks for a run: the same manifest once more, or a change of the
    marks that say how the job waits or runs. A label of another owner is no such word."""
    places = ("labels", "annotations")
    said, before = ({p: mapping(body["metadata"].get(p)) for p in places} for body in (new, old))
    keys = {key for p in places for key in {*said[p], *before[p]} if said[p].get(key) != before[p].get(key)}
    return all(key.startswith("kubectl.kubernetes.io/") for key in keys) or any(key in TABLE for key in keys)


def _moves(review: Review) -> bool:
    """Whether its policy takes a failed job to another member, and may do so once more."""
    if review.store is None:
        return False
    stored = binding_of(review.store.peek, review.kind.group, review.kind.kind, review.namespace, review.name)
    return stored is not None and moves_again(stored.body)
