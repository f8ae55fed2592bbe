"""Kinds that clusters act on and the hub does not: the client is warned, and told of what does the same here.

Such an object is stored like any other, since a policy may send it to members, which act on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import asked_anew

_INSTEAD = {
    ("", "ResourceQuota"): (
        "has no effect on jobs on the hub: their quota is the ElasticQuotaTree in kube-system"
        " (max, fleet.io/user-max, fleet.io/max-waiting-jobs)"
    ),
    ("", "LimitRange"): (
        "has no effect on jobs on the hub: write requests into their pod templates, and limits into the"
        " ElasticQuotaTree in kube-system"
    ),
}


def without_effect(review: Review) -> Sequence[Cause]:
    """The check of one object, which only warns."""
    said = _INSTEAD.get((review.kind.group, review.kind.kind))
    if said is not None and asked_anew(review):
        review.warnings.append(f"{review.kind.kind} {review.namespace}/{review.name} {said}")
    return ()
