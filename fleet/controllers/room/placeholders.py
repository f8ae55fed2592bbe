"""Placeholder pods: one for each pod of a gang, with its requests and its choice of nodes, and no work. Pure.

The member's scheduler gives them nodes as it would give them to the job, and so its own answer says whether the gang
has room. Placeholders carry the hub's labels and none of the user's: no Service and no controller of the user may take
them for pods of the job. Affinity to other pods is left out for this reason, but for the hub's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.kinds.interpreter import Interpreter, Template
from fleet.kinds.requests import pod_requests
from fleet.values.names import label_problems
from fleet.values.ports import Body
from fleet.values.quantity import text_of
from fleet.values.untyped import at, mapping, pairs, rows
from fleet.wellknown import ANNOTATION_JOB, ATTEMPT, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB, LABEL_PLACEHOLDER

_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_AS_THE_JOB = ("nodeSelector", "tolerations", "priorityClassName", "schedulerName")
_HARMLESS = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65535,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def placeholders(manifest: Body, interpreter: Interpreter, ttl_s: int, image: str) -> list[Body]:
    """One pod for each replica of the manifest, which is the job as its member will get it. After `ttl_s` seconds the
    kubelet ends the pod, whether or not the hub is still there. Raises BadQuantity."""
    return [
        _placeholder(manifest, template, _in_names(template.name, index), number, ttl_s, image)
        for index, template in enumerate(interpreter.templates(manifest))
        for number in range(template.replicas)
    ]


def _in_names(component: str, index: int) -> str:
    """The component as part of a pod's name: a name that no pod may have gives way to its place."""
    return f"part{index}" if label_problems(component) else component


def _placeholder(manifest: Body, template: Template, part: str, number: int, ttl_s: int, image: str) -> Body:
    labels, annotations = pairs(manifest["metadata"].get("labels")), pairs(manifest["metadata"].get("annotations"))
    marks = {key: labels[key] for key in (LABEL_HUB, LABEL_BINDING, ATTEMPT)}
    spec = mapping(template.template.get("spec"))
    amounts = {name: text_of(name, amount) for name, amount in pod_requests(spec).items_ if name != "pods"}
    container = {
        "name": "placeholder",
        "image": image,
        "securityContext": _HARMLESS,
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"fleet-{marks[LABEL_BINDING][:8]}-{marks[ATTEMPT]}-{part}-{number}",
            "namespace": manifest["metadata"]["namespace"],
            "labels": {**marks, LABEL_COMPONENT: template.name, LABEL_PLACEHOLDER: "true"},
            "annotations": {ANNOTATION_JOB: annotations.get(ANNOTATION_JOB, "")},
        },
        "spec": {
            **{field: spec[field] for field in _AS_THE_JOB if spec.get(field)},
            **({"affinity": affinity} if (affinity := _affinity(spec)) else {}),
            "containers": [container],
            "activeDeadlineSeconds": ttl_s,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
        },
    }


def _affinity(spec: Mapping[str, Any]) -> Body:
    """To nodes as the pod has it, and to the other pods of its gang."""
    affinity: Body = {}
    if at(spec, "affinity", "nodeAffinity"):
        affinity["nodeAffinity"] = at(spec, "affinity", "nodeAffinity")
    terms = rows(at(spec, "affinity", "podAffinity", _TERMS))
    own = [term for term in terms if LABEL_BINDING in mapping(at(term, "labelSelector", "matchLabels"))]
    if own:
        affinity["podAffinity"] = {_TERMS: own}
    return affinity
