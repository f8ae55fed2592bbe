"""The labels of a job that say what it is charged to: people change them while it waits, not while it holds quota.

A job that waits moves to the queue that its label names, with the enqueue time it had. A job that left its queue is
charged where it was admitted until it is back or over. Otherwise a change of a label could push a leaf above its max,
or work out of the guarantee that lets others take its room back. The job's own condition tells, so nothing is looked
up.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import forbidden
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.values.ports import Body
from fleet.values.untyped import at, rows, text
from fleet.wellknown import PREEMPTIBLE_LABELS, QUEUING, QUOTA_NAME_LABELS

_OVER = ("Succeeded", "Failed", "Complete")


def stays_in_queue(review: Review) -> Sequence[Cause]:
    """The check of one job."""
    if review.new is None or review.old is None or review.subresource or not holds_quota(review.old):
        return ()
    new, old = _labels(review.new), _labels(review.old)
    why = "the job has left its queue and is charged as it was admitted; suspend it to change this"
    return [
        forbidden(f"metadata.labels[{name}]", why)
        for name in (*QUOTA_NAME_LABELS, *PREEMPTIBLE_LABELS)
        if new.get(name) != old.get(name)
    ]


def holds_quota(job: Body) -> bool:
    """Whether a job that a policy queues has left its queue and is not over."""
    told = {text(c.get("type")): c.get("status") for c in rows(at(job, "status", "conditions"))}
    return told.get(QUEUING) == "False" and not any(told.get(name) == "True" for name in _OVER)


def _labels(body: Body) -> dict[str, str]:
    return body["metadata"].get("labels") or {}
