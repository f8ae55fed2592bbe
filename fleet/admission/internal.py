"""The definitions of the kinds that the hub works with stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from api.engine.status import Cause, forbidden
from api.objects.writing import Review
from fleet.values.untyped import at
from fleet.wellknown import CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, WORK

INTERNAL_GROUPS = (CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, WORK)


def internal(review: Review) -> Sequence[Cause]:
    """The controllers of the hub read and write these kinds: another schema would prune what they need."""
    if review.old is None or review.user.hub:
        return ()
    if at(review.old, "spec", "group") not in INTERNAL_GROUPS:
        return ()
    why = ""
    if review.operation == "DELETE":
        why = "the hub works with this kind; it cannot be deleted"
    elif review.new is not None and review.new.get("spec") != review.old.get("spec"):
        why = "the hub works with this kind; its definition cannot be changed"
    if why:
        raise forbidden(review.kind.group, review.kind.resource, review.name, why)
    return ()
