"""The creator of a job: noted when it is created, by the hub, and never changed after.

Limits per user are charged to this name, so it must be the name of the authenticated user. A client's own value under
the annotation is replaced on creation and refused in an update. An update that leaves it out (a `kubectl replace` of a
manifest) keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import forbidden
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_CREATOR

_FIELD = f"metadata.annotations[{ANNOTATION_CREATOR}]"


def creator(review: Review) -> Sequence[Cause]:
    """The check of one job; fills the annotation in."""
    if review.new is None or review.subresource:
        return ()
    if review.operation == "CREATE":
        _note(review.new, review.user.name)
        return ()
    before, now = _of(review.old), _of(review.new)
    if now is None and before is not None:
        _note(review.new, before)
    elif now != before:
        return [forbidden(_FIELD, "it names who made the job, and does not change")]
    return ()


def _of(body: Body | None) -> str | None:
    found = ((body or {}).get("metadata", {}).get("annotations") or {}).get(ANNOTATION_CREATOR)
    return None if found is None else str(found)


def _note(body: Body, name: str) -> None:
    metadata = body["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_CREATOR: name}
