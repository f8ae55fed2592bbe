"""The status of what Fleet works with is written by its controllers alone: decisions rest on it.

A job's status tells admission whether the job holds quota; a binding's tells what is charged; a Cluster's tells where
jobs may go. Of a QueueUnit others answer admission checks (fleet_objects.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from api.engine.status import Cause, forbidden
from api.objects.writing import Review


def status_by_hub(review: Review) -> Sequence[Cause]:
    """The check of one write to /status."""
    if review.subresource != "status" or review.new is None or review.user.hub:
        return ()
    if (review.new.get("status") or {}) == ((review.old or {}).get("status") or {}):
        return ()
    why = "Fleet's controllers alone write its status"
    raise forbidden(review.kind.group, f"{review.kind.resource}/status", review.name, why)


def made_by_hub(review: Review) -> Sequence[Cause]:
    """The check of a kind that the hub makes from other objects: no other writer creates one."""
    if review.operation != "CREATE" or review.user.hub:
        return ()
    why = f"the hub makes a {review.kind.kind} by itself, from a policy and what it selects; submit the object instead"
    raise forbidden(review.kind.group, review.kind.resource, review.name, why)
