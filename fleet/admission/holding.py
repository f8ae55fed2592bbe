"""The hold of a job that has its room already: the hold stops nothing, and the client is told so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.growth import has_room
from fleet.kinds.interpreter import Interpreter
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text
from fleet.wellknown import ANNOTATION_HOLD


def held_later(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of one job, which only warns."""
    field = interpreter.suspend_field
    stop = f"set {field}: true" if field else "scale it to 0"

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.old is None or review.subresource:
            return ()
        if _held(review.new) and not _held(review.old) and has_room(review.old, interpreter):
            review.warnings.append(
                f"{ANNOTATION_HOLD} keeps a job from starting: this one runs on, and is held when it next waits;"
                f" to stop it now, {stop}"
            )
        return ()

    return check


def _held(body: Body) -> bool:
    return text(mapping(body["metadata"].get("annotations")).get(ANNOTATION_HOLD)) == "true"
