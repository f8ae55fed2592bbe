"""The status that a new object of a built-in kind begins with.

A status in a create request is dropped, as everywhere; but built-in kinds do not begin with nothing. A Node keeps its
creator's values (tools that make nodes by hand rely on it); a Pod and a claim are always Pending.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from api.engine.kind import Kind
from fleet.values.quantity import BadQuantity, quantity
from fleet.values.untyped import rows

Body = dict[str, Any]
_COUNTED = ("cpu", "memory")
# What Go makes of a status that nothing has been written to yet.
_FIRST: dict[tuple[str, str], Body] = {
    ("", "persistentvolumes"): {"phase": "Pending"},
    ("", "replicationcontrollers"): {"replicas": 0},
    ("", "resourcequotas"): {},
    ("", "services"): {"loadBalancer": {}},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    ("apps", "deployments"): {},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"availableReplicas": 0, "replicas": 0},
    ("autoscaling", "horizontalpodautoscalers"): {"desiredReplicas": 0},
    ("batch", "cronjobs"): {},
    ("batch", "jobs"): {},
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): {},
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): {},
    ("networking.k8s.io", "ingresses"): {"loadBalancer": {}},
    ("networking.k8s.io", "servicecidrs"): {},
    ("policy", "poddisruptionbudgets"): {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    ("resource.k8s.io", "resourceclaims"): {},
    ("storage.k8s.io", "volumeattachments"): {"attached": False},
}
_OF_CORE = {resource for group, resource in _FIRST if not group}


def first_status(kind: Kind, body: Body) -> Body | None:
    """`body` as it was sent, before validation; None: without a status."""
    if not kind.builtin:
        return None
    if kind.group or kind.resource in _OF_CORE:
        begun = _FIRST.get((kind.group, kind.resource))
        return None if begun is None else copy.deepcopy(begun)
    match kind.resource:
        case "nodes":
            return body.get("status")
        case "pods":
            return {"phase": "Pending", "qosClass": qos_class(body.get("spec"))}
        case "persistentvolumeclaims":
            return {"phase": "Pending"}
        case _:
            return None


def qos_class(spec: object) -> str:
    """Guaranteed when every container has limits for CPU and memory and requests no less, BestEffort when none asks for
    anything, else Burstable. A value that does not parse counts as not given: validation refuses it."""
    containers = [
        container
        for group in ("initContainers", "containers")
        for container in rows(spec.get(group) if isinstance(spec, Mapping) else None)
    ]
    has_amounts, guaranteed = False, bool(containers)
    for container in containers:
        resources = container.get("resources")
        limits, requests = (_amounts(resources, field) for field in ("limits", "requests"))
        has_amounts = has_amounts or bool(limits or requests)
        guaranteed = guaranteed and len(limits) == len(_COUNTED) and {**limits, **requests} == limits
    if not has_amounts:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(resources: object, field: str) -> dict[str, int]:
    """CPU and memory, those above zero."""
    given = resources.get(field) if isinstance(resources, Mapping) else None
    amounts: dict[str, int] = {}
    for name in _COUNTED:
        try:
            amount = quantity(given[name], name) if isinstance(given, Mapping) and name in given else 0
        except BadQuantity:
            amount = 0
        if amount > 0:
            amounts[name] = amount
    return amounts
