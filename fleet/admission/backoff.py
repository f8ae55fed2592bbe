"""How often a job is tried: the annotation of a job or a policy is a whole number."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.admission.rule import invalid
from fleet.engine.status import Cause
from fleet.ports import Body
from fleet.wellknown import ANNOTATION_BACKOFF_LIMIT

_DIGITS_MAX = 9


def backoff_limit(body: Body) -> Sequence[Cause]:
    """A check of one object."""
    text = (body["metadata"].get("annotations") or {}).get(ANNOTATION_BACKOFF_LIMIT)
    if text is None or (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return ()
    why = "must be a whole number of attempts; 0 for any number"
    return [invalid(f"metadata.annotations[{ANNOTATION_BACKOFF_LIMIT}]", text, why)]
