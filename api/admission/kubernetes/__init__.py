"""What Kubernetes requires of its own kinds beyond their schemas, one file a subject.

`check` is asked of every write. A kind in CHECKS says `checked` in its file: the checks name the required fields
themselves, in their words, and its schema is not asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from api.admission.kubernetes import others, pods, services, workloads
from api.admission.kubernetes.language import Check, Object
from api.engine.status import CAUSES_MAX, Cause
from api.objects.writing import Review

CHECKS: dict[tuple[str, str], Check] = {**workloads.CHECKS, **services.CHECKS, **others.CHECKS}
UPDATES: dict[tuple[str, str], Callable[[Object, Object], Iterable[Cause]]] = {
    ("apps", "daemonsets"): workloads.selector_stays,
    ("apps", "deployments"): workloads.selector_stays,
    ("apps", "replicasets"): workloads.selector_stays,
    ("apps", "statefulsets"): workloads.set_stays,
    ("batch", "jobs"): workloads.job_stays,
    ("", "persistentvolumeclaims"): others.claim_stays,
    ("", "pods"): pods.pod_stays,
    ("storage.k8s.io", "storageclasses"): others.class_stays,
    ("node.k8s.io", "runtimeclasses"): others.handler_stays,
}


def check(review: Review) -> Sequence[Cause]:
    """The causes for which a kube-apiserver refuses the write; none for other kinds."""
    name = (review.kind.group, review.kind.resource)
    rule = CHECKS.get(name)
    if rule is None or review.new is None or review.subresource not in ("", "scale"):
        return ()
    if name == ("", "endpoints"):
        review.warnings.append("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    found: Iterable[Cause] = rule(review.new, "")
    if review.old is not None and name in UPDATES:
        found = chain(found, UPDATES[name](review.new, review.old))
    try:
        return list(islice(found, CAUSES_MAX))
    except Exception:
        if review.old is None or _sound(rule, review.old):
            raise
        return ()  # an object of before its schema said no: a write that mends a part of it must get through


def _sound(asked: Check, stored: Object) -> bool:
    """Whether the stored object has the form that the checks rely on."""
    try:
        list(asked(stored, ""))
    except Exception:
        return False
    return True
