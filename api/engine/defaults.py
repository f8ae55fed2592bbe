"""The defaults of Kubernetes' own kinds but pods, as in pkg/apis/*/v1/defaults.go of Kubernetes 1.36."""

from __future__ import annotations

from typing import Any

from api.engine import autoscaling
from api.engine.defaults_pods import POD, POD_SPEC, amount, amounts, resources, template
from api.engine.filling import Body, Filler, Zero, all_of, at_each, fill
from fleet.values.untyped import mapping, rows

_HISTORY = 10
_LARGEST = 2**31 - 1
_CLIENT_IP_SECONDS = 10800
CLAIM_SPEC: Filler = all_of(fill("", {"volumeMode": "Filesystem", "resources": {}}), resources)


def _rolling(strategy: str, **values: Any) -> Filler:
    """The values of a rolling update, where the strategy is one."""

    def filler(spec: Body) -> None:
        found = spec.get(strategy)
        if found.__class__ is dict and found.get("type") == "RollingUpdate":
            fill("rollingUpdate+", values)(found)

    return at_each("spec", filler)


def _labels_of_template(body: Body) -> None:
    labels = mapping(mapping(mapping(mapping(body.get("spec")).get("template")).get("metadata"))).get("labels")
    metadata = body.get("metadata")
    if labels.__class__ is dict and labels and metadata.__class__ is dict and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _job_spec(spec: Body) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(
        "",
        {
            "parallelism": 1,
            "backoffLimit": _LARGEST if spec.get("backoffLimitPerIndex") is not None else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed",
            "manualSelector": False,
        },
    )(spec)


_JOB_SPEC = all_of(
    _job_spec,
    template("template"),
    fill("podFailurePolicy.rules[].onPodConditions[]", {"status": "True"}),
)


def _selector_of_labels(body: Body) -> None:
    """A ReplicationController selects what its template makes."""
    spec = mapping(body.get("spec"))
    labels = mapping(mapping(spec.get("template")).get("metadata")).get("labels")
    if labels.__class__ is dict and labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def _service(spec: Body) -> None:
    fill("", {"sessionAffinity": "None", "type": "ClusterIP"})(spec)
    kind, affinity = spec["type"], spec["sessionAffinity"]
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        fill("sessionAffinityConfig+.clientIP+", {"timeoutSeconds": _CLIENT_IP_SECONDS})(spec)
    for port in rows(spec.get("ports")):
        fill("", {"protocol": "TCP"})(port)
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        fill("", {"externalTrafficPolicy": "Cluster"})(spec)
    if kind != "ExternalName":
        fill("", {"internalTrafficPolicy": "Cluster"})(spec)
    if kind == "LoadBalancer":
        fill("", {"allocateLoadBalancerNodePorts": True})(spec)


def _limits(item: Body) -> None:
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        amounts(item, field)
    if item.get("type") != "Container":
        return
    for target, sources in (("default", ("max",)), ("defaultRequest", ("default", "min"))):
        found = item.get(target)
        if found is not None and found.__class__ is not dict:
            continue
        merged = dict(found or {})
        for source in sources:
            for name, value in mapping(item.get(source)).items():
                merged.setdefault(name, value)
        if merged:
            item[target] = merged


def _network_policy(spec: Body) -> None:
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _autoscaler(body: Body) -> None:
    """Of v1 only the fields that it has; the rest comes with its conversion."""
    v1 = body.get("apiVersion") == autoscaling.V1
    at_each("spec+", fill("", {"minReplicas": 1}) if v1 else autoscaling.complete)(body)


def _device_request(request: Body) -> None:
    fill("", {"allocationMode": "ExactCount"})(request)
    if request["allocationMode"] == "ExactCount":
        fill("", {"count": Zero(1)})(request)


def _volume_capacity(spec: Body) -> None:
    amounts(spec, "capacity")


_STRATEGY = {"revisionHistoryLimit": _HISTORY}
_DEVICES = all_of(
    at_each("devices.requests[].exactly", _device_request),
    at_each("devices.requests[].firstAvailable[]", _device_request),
)
DEFAULTS: dict[tuple[str, str], Filler] = {
    ("", "pods"): POD,
    ("", "podtemplates"): template("template"),
    ("", "replicationcontrollers"): all_of(
        _selector_of_labels,
        _labels_of_template,
        fill("spec+", {"replicas": 1}),
        at_each("spec.template.spec+", POD_SPEC),
    ),
    ("", "services"): at_each("spec+", _service),
    ("", "endpoints"): fill("subsets[].ports[]", {"protocol": "TCP"}),
    ("", "limitranges"): at_each("spec.limits[]", _limits),
    ("", "resourcequotas"): at_each("spec", lambda spec: amounts(spec, "hard")),
    ("", "persistentvolumeclaims"): at_each("spec+", CLAIM_SPEC),
    ("", "persistentvolumes"): all_of(
        at_each("spec", _volume_capacity),
        fill("spec", {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}),
        fill("spec.hostPath", {"type": ""}),
        fill("spec.iscsi", {"iscsiInterface": "default"}),
    ),
    ("apps", "deployments"): all_of(
        fill("spec+", {"replicas": 1, **_STRATEGY, "progressDeadlineSeconds": 600}),
        fill("spec.strategy+", {"type": "RollingUpdate"}),
        _rolling("strategy", maxUnavailable="25%", maxSurge="25%"),
        at_each("spec", template("template")),
    ),
    ("apps", "daemonsets"): all_of(
        fill("spec+", _STRATEGY),
        fill("spec.updateStrategy+", {"type": "RollingUpdate"}),
        _rolling("updateStrategy", maxUnavailable=1, maxSurge=0),
        at_each("spec", template("template")),
    ),
    ("apps", "statefulsets"): all_of(
        fill("spec+", {"podManagementPolicy": "OrderedReady", "replicas": 1, **_STRATEGY}),
        fill("spec.updateStrategy+", {"type": "RollingUpdate"}),
        _rolling("updateStrategy", partition=0),
        fill("spec.persistentVolumeClaimRetentionPolicy+", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
        at_each("spec", template("template")),
        fill("spec.volumeClaimTemplates[]", {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
        at_each("spec.volumeClaimTemplates[].spec+", CLAIM_SPEC),
        fill("spec.volumeClaimTemplates[].status+", {"phase": "Pending"}),
    ),
    ("apps", "replicasets"): all_of(fill("spec+", {"replicas": 1}), at_each("spec", template("template"))),
    ("batch", "jobs"): all_of(_labels_of_template, at_each("spec+", _JOB_SPEC)),
    ("batch", "cronjobs"): all_of(
        fill(
            "spec+",
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        ),
        fill("spec.jobTemplate+.metadata+", {}),
        at_each("spec.jobTemplate.spec+", template("template")),
        fill("spec.jobTemplate.spec.podFailurePolicy.rules[].onPodConditions[]", {"status": "True"}),
    ),
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("networking.k8s.io", "networkpolicies"): all_of(
        fill("spec.ingress[].ports[]", {"protocol": "TCP"}),
        fill("spec.egress[].ports[]", {"protocol": "TCP"}),
        at_each("spec+", _network_policy),
    ),
    ("networking.k8s.io", "ingressclasses"): fill("spec.parameters", {"scope": "Cluster"}),
    ("storage.k8s.io", "storageclasses"): fill("", {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("storage.k8s.io", "csidrivers"): fill(
        "spec+",
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
            "requiresRepublish": False,
            "seLinuxMount": False,
        },
    ),
    ("storage.k8s.io", "csistoragecapacities"): all_of(
        lambda body: amount(body, "capacity"), lambda body: amount(body, "maximumVolumeSize")
    ),
    ("discovery.k8s.io", "endpointslices"): all_of(
        fill("ports[]", {"name": "", "protocol": "TCP"}), fill("endpoints[]", {"conditions": {}})
    ),
    ("node.k8s.io", "runtimeclasses"): at_each("overhead", lambda overhead: amounts(overhead, "podFixed")),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): fill("spec+", {"matchingPrecedence": Zero(1000)}),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): all_of(
        fill("spec.exempt", {"nominalConcurrencyShares": 0, "lendablePercent": 0}),
        fill("spec.limited", {"nominalConcurrencyShares": 30, "lendablePercent": 0}),
        fill(
            "spec.limited.limitResponse.queuing",
            {
                "handSize": Zero(8),
                "queues": Zero(64),
                "queueLengthLimit": Zero(50),
            },
        ),
    ),
    ("resource.k8s.io", "resourceclaims"): at_each("spec", _DEVICES),
    ("resource.k8s.io", "resourceclaimtemplates"): at_each("spec.spec", _DEVICES),
}
