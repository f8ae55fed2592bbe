"""Which objects have pods. Fleet places those of the job kinds, as gangs; all others with pods stay on the hub.

An object that is sent to every member would start its pods in each of them, beside every quota. So a policy cannot name
such a kind, and an object of an unknown kind is looked at itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from api.admission.causes import invalid
from api.engine.status import Cause
from fleet.admission.travel import GRANTS_RIGHTS
from fleet.kinds import INTERPRETERS, interpreter_for, interpreter_of
from fleet.kinds.lookup import NamedKind

WITH_PODS = frozenset(
    {
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
    }
)
# Kinds without pods that may stand beside gangs in one policy: of these no gang is ever made.
_WITHOUT_PODS = frozenset(
    {
        *(
            ("", kind)
            for kind in (
                "ConfigMap",
                "LimitRange",
                "Namespace",
                "PersistentVolume",
                "PersistentVolumeClaim",
                "ResourceQuota",
                "Secret",
                "Service",
                "ServiceAccount",
            )
        ),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("networking.k8s.io", "Ingress"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "ResourceClaim"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttributesClass"),
    }
)
# The way out for a user of a kind that nothing on the hub acts on.
INSTEAD = {
    ("batch", "CronJob"): "schedules do not run on the hub: kubectl create job NAME --from=cronjob/{name} makes one job"
}
DECLARE = "a WorkloadInterpreter (config.fleet.io) declares another kind"


def gang_kinds() -> list[str]:
    """The kinds that have an interpreter now, by name."""
    return sorted({kind for _, kind in INTERPRETERS})


def stays_with_its_pods(kind: NamedKind) -> bool:
    """Whether it is a kind with pods that no policy can take, since no interpreter reads it."""
    return (kind.group, kind.kind) in WITH_PODS and interpreter_for(kind) is None


def kinds_in_words() -> str:
    """The kinds whose pods Fleet places, in words."""
    return f"Fleet places only pods of {', '.join(gang_kinds())}; {DECLARE}"


def may_stay_beside_gangs(api_version: str, kind: str) -> bool:
    """Whether a policy for gangs may take objects of the kind, which has no interpreter, along as they are."""
    group = api_version.rpartition("/")[0]
    return (group, kind) in _WITHOUT_PODS or group in GRANTS_RIGHTS


def wrong_kinds(selectors: Sequence[Mapping[str, Any]], *, gang: bool) -> Iterator[Cause]:
    """The selectors of a policy whose objects would not run as its author means. `gang`: the policy makes gangs."""
    for index, selector in enumerate(selectors):
        api_version, kind = str(selector.get("apiVersion") or ""), str(selector.get("kind") or "")
        group = api_version.rpartition("/")[0]
        if not kind or not api_version or interpreter_of(api_version, kind) is not None:
            continue
        where = f"spec.resourceSelectors[{index}].kind"
        if (group, kind) in WITH_PODS:
            instead = INSTEAD.get((group, kind), "")
            why = f"its pods would start in no queue, or in every member: {kinds_in_words()}"
            yield invalid(where, kind, f"{why}; {instead.format(name='NAME')}" if instead else why)
        elif gang and not may_stay_beside_gangs(api_version, kind):
            near = difflib.get_close_matches(kind, gang_kinds(), n=1, cutoff=0.8)
            meant = f"did you mean {near[0]}? " if near else ""
            why = (
                f"{meant}no WorkloadInterpreter says what pods a {kind} of {api_version} has. {kinds_in_words()};"
                " objects without pods go into a policy of their own, without customSchedulingType"
            )
            yield invalid(where, kind, why)


def carries_pods(body: Mapping[str, Any]) -> bool:
    """Whether the object is a Pod, or has a pod template anywhere: a `…template` with `spec.containers`."""
    if body.get("apiVersion") == "v1" and body.get("kind") == "Pod":
        return True
    pending: list[Any] = [body]
    while pending:
        found = pending.pop()
        if found.__class__ is list:
            pending.extend(found)
            continue
        for key, value in found.items() if found.__class__ is dict else ():
            if value.__class__ is dict and key.lower().endswith("template") and _pod_spec(value.get("spec")):
                return True
            pending.append(value)
    return False


def _pod_spec(spec: Any) -> bool:
    return spec.__class__ is dict and spec.get("containers").__class__ is list
