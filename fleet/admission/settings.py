"""Objects of Kubernetes' own kinds that the hub keeps for itself: its settings, and the sign of life of its leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from api.admission.causes import invalid
from api.admission.rule import dig
from api.engine.status import Cause
from api.engine.status import forbidden as may_not
from api.objects.writing import Review
from fleet.bindings.heartbeat import LEASE as HEARTBEAT
from fleet.values.untyped import digits
from fleet.wellknown import HUB_CONFIG, MAX_WAITING_BY_USER, REQUIRE_QUEUE, SYSTEM_NAMESPACE

_CHOICES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    REQUIRE_QUEUE: (lambda said: said in ("true", "false"), 'must be "true" or "false"'),
    MAX_WAITING_BY_USER: (
        lambda said: digits(said, 9) is not None,
        'must be a whole number of jobs; "0" for any number',
    ),
}


def choices(review: Review) -> Sequence[Cause]:
    """The settings of administrators for the whole hub: an unknown word would count as not being there."""
    if (review.namespace, review.name) != (SYSTEM_NAMESPACE, HUB_CONFIG):
        return ()
    causes = []
    for key, (means_something, why) in _CHOICES.items():
        said = dig(review.new, f"data.{key}")
        if said is not None and not means_something(said):
            causes.append(invalid(f"data[{key}]", said, why))
    return causes


def hubs_heartbeat(review: Review) -> Sequence[Cause]:
    """A writer of it could tell all users that jobs are decided on, or that they are not."""
    of_hub = (review.namespace, review.name) == (HEARTBEAT.namespace, HEARTBEAT.name)
    if of_hub and not review.user.hub:
        why = "the hub's controllers alone write their heartbeat"
        raise may_not(review.kind.group, review.kind.resource, review.name, why)
    return ()
