"""The refusals beyond the schema, one file a subject: `Objects` asks `rules()`."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission import kubernetes
from api.admission import rules as kubernetes_rules
from api.admission.rule import Check, Checks, Rule
from api.engine.status import Cause
from api.objects.objects import EVERY_KIND, Objects
from api.objects.writing import Review
from fleet.admission import declaring, fleet_objects, notifying, policies, quotatree, settings
from fleet.admission.circles import starts_after_itself
from fleet.admission.effectless import without_effect
from fleet.admission.growth import has_what_it_asks
from fleet.admission.hypernodes import HYPERNODE
from fleet.admission.internal import internal
from fleet.admission.jobs import job
from fleet.admission.marks import marks
from fleet.admission.unread import unread
from fleet.admission.waiting import may_wait
from fleet.wellknown import (
    ANNOTATION_SEEDED,
    CLUSTER,
    CONFIG,
    HYPERNODES,
    POLICY,
    QUEUE,
    QUOTA,
    SYSTEM_NAMESPACES,
    WORK,
)

# Checks of single objects of Kubernetes' own kinds that are the hub's.
_OF_THE_HUB: dict[tuple[str, str], Check] = {
    ("", "configmaps"): settings.choices,
    ("coordination.k8s.io", "leases"): settings.hubs_heartbeat,
    ("apiextensions.k8s.io", "customresourcedefinitions"): internal,
}


def rules() -> dict[tuple[str, str], Rule]:
    """(group, resource) -> its rule, and the one of all other kinds, jobs among them. Every rule keeps the hub's marks
    first."""
    others = Checks(marks, unread, _sound, without_effect, early=_early)
    return {**{name: rule.after(marks, unread) for name, rule in _rules().items()}, EVERY_KIND: others}


async def _early(review: Review, objects: Objects) -> Sequence[Cause]:
    """What the hub would hold back later anyway."""
    for ask in (may_wait, starts_after_itself, has_what_it_asks):
        if causes := await ask(review, objects):
            return causes
    return ()


def _sound(review: Review) -> Sequence[Cause]:
    """A built-in kind as Kubernetes wants it, and then a job as its kind's interpreter does."""
    return kubernetes.check(review) or job(review)


def _rules() -> dict[tuple[str, str], Checks]:
    found = kubernetes_rules(kept=("default", *SYSTEM_NAMESPACES), seeded=ANNOTATION_SEEDED)
    for name, check in _OF_THE_HUB.items():
        found[name] = found[name].after(check)
    return found | {
        (QUOTA, "elasticquotatrees"): quotatree.RULE,
        (QUEUE, "queueunits"): fleet_objects.QUEUE_UNIT,
        (QUEUE, "queues"): fleet_objects.QUEUE,
        (POLICY, "propagationpolicies"): policies.PROPAGATION,
        (POLICY, "clusterpropagationpolicies"): policies.PROPAGATION,
        (POLICY, "overridepolicies"): policies.OVERRIDE,
        (POLICY, "clusteroverridepolicies"): policies.OVERRIDE,
        (WORK, "resourcebindings"): fleet_objects.RESOURCE_BINDING,
        (CLUSTER, "clusters"): fleet_objects.CLUSTER,
        (CONFIG, "workloadinterpreters"): declaring.RULE,
        (HYPERNODES, "hypernodes"): HYPERNODE,
        (CONFIG, "notificationreceivers"): notifying.RECEIVER,
    }
