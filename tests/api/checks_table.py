"""What is made wrong of the sound objects, and what is written another way: for test_checks_like_kubernetes.py."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.api.sound_table import CONTAINER, SELECTOR, SOUND, Body

GONE = object()  # a value: the field is taken out

# What is filled in by a controller, an allocator or an admission plugin of a cluster: nobody does so on the hub.
CREATOR = "metadata.annotations"  # the hub notes who made a job
OF_A_CLUSTER: dict[str, tuple[str, ...]] = {
    "service": ("spec.ports.0.nodePort", "spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
    "pod": (
        "spec.serviceAccount",
        "spec.serviceAccountName",
        "spec.priority",
        "spec.preemptionPolicy",
        "spec.tolerations",
        "spec.volumes",
        "spec.containers.0.volumeMounts",
    ),
    "deployment": (CREATOR,),
    "statefulset": (CREATOR,),
    "job": (CREATOR, "metadata.labels", "spec.selector", "spec.template.metadata.labels"),
    "claim": ("metadata.finalizers",),
    "volume": ("metadata.finalizers", "status.lastPhaseTransitionTime"),
    "daemonset": ("metadata.annotations",),
    "autoscaler": ("status.currentMetrics",),
}

C = "spec.containers.0"
T = "spec.template.spec.containers.0"
GPU = "nvidia.com/gpu"

# (the sound object, the field, its value)
WRONG: list[tuple[str, str, Any]] = [
    ("pod", "spec.containers", []),
    ("pod", "spec.containers", GONE),
    ("pod", f"{C}.name", GONE),
    ("pod", f"{C}.name", "Upper"),
    ("pod", f"{C}.name", "n" * 64),
    ("pod", f"{C}.image", GONE),
    ("pod", f"{C}.imagePullPolicy", "Sometimes"),
    ("pod", f"{C}.terminationMessagePolicy", "x"),
    ("pod", "spec.containers", [CONTAINER, CONTAINER]),
    ("pod", "spec.initContainers", [CONTAINER]),
    ("pod", "spec.initContainers", [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]),
    ("pod", f"{C}.ports", [{"containerPort": 0}]),
    ("pod", f"{C}.ports", [{"containerPort": 70000}]),
    ("pod", f"{C}.ports", [{"containerPort": 80, "protocol": "tcp"}]),
    ("pod", f"{C}.ports", [{"containerPort": 80, "name": "a--b"}]),
    ("pod", f"{C}.ports", [{"containerPort": 80, "name": "123456789012345678"}]),
    ("pod", f"{C}.ports", [{"containerPort": 80, "name": "web"}, {"containerPort": 81, "name": "web"}]),
    ("pod", f"{C}.ports", [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]),
    ("pod", f"{C}.env", [{"name": "", "value": "x"}]),
    ("pod", f"{C}.env", [{"name": "a=b", "value": "x"}]),
    ("pod", f"{C}.env", [{"name": "A", "valueFrom": {}}]),
    ("pod", f"{C}.env", [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    ("pod", f"{C}.env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k k"}}}]),
    ("pod", f"{C}.env", [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "S", "key": "k"}}}]),
    ("pod", f"{C}.env", [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}]),
    ("pod", f"{C}.envFrom", [{}]),
    ("pod", f"{C}.envFrom", [{"configMapRef": {"name": "A"}}]),
    ("pod", f"{C}.volumeMounts", [{"name": "none", "mountPath": "/x"}]),
    ("pod", f"{C}.volumeMounts", [{"name": "none"}]),
    ("pod", f"{C}.resources", {"limits": {"cpu": "-1"}}),
    ("pod", f"{C}.resources", {"limits": {GPU: "1500m"}}),
    ("pod", f"{C}.resources", {"limits": {GPU: 1}, "requests": {GPU: 2}}),
    ("pod", f"{C}.resources", {"requests": {GPU: 1}}),
    ("pod", f"{C}.resources", {"limits": {"cpu": 1}, "requests": {"cpu": 2}}),
    ("pod", f"{C}.resources", {"limits": {"gpu": 1}}),
    ("pod", f"{C}.resources", {"limits": {"a b": 1}}),
    ("pod", f"{C}.resources", {"limits": {"pods": 1}}),
    ("pod", f"{C}.livenessProbe", {"exec": {"command": ["x"]}, "successThreshold": 2}),
    ("pod", f"{C}.livenessProbe", {"exec": {"command": []}}),
    ("pod", f"{C}.livenessProbe", {}),
    ("pod", f"{C}.readinessProbe", {"httpGet": {"port": 0}, "periodSeconds": -1}),
    ("pod", f"{C}.startupProbe", {"httpGet": {"port": "a_b"}, "tcpSocket": {"port": 1}}),
    ("pod", f"{C}.lifecycle", {"preStop": {}}),
    ("pod", "spec.volumes", [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]),
    ("pod", "spec.volumes", [{"name": "V"}]),
    ("pod", "spec.volumes", [{"name": "v"}, {"name": "v"}]),
    ("pod", "spec.volumes", [{"name": "v", "secret": {}}]),
    ("pod", "spec.volumes", [{"name": "v", "secret": {"secretName": "s", "defaultMode": 1000}}]),
    ("pod", "spec.volumes", [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "../x"}]}}]),
    ("pod", "spec.volumes", [{"name": "v", "hostPath": {"path": "/a/../b"}}]),
    ("pod", "spec.volumes", [{"name": "v", "hostPath": {"path": "/a", "type": "x"}}]),
    ("pod", "spec.volumes", [{"name": "v", "nfs": {"server": "s", "path": "rel"}}]),
    ("pod", "spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]),
    ("pod", "spec.restartPolicy", "Maybe"),
    ("pod", "spec.dnsPolicy", "Maybe"),
    ("pod", "spec.nodeSelector", {"a b": "c"}),
    ("pod", "spec.nodeSelector", {"a": "c d"}),
    ("pod", "spec.activeDeadlineSeconds", 0),
    ("pod", "spec.hostname", "A"),
    ("pod", "spec.subdomain", "A"),
    ("podtemplate", "template.spec.runtimeClassName", "A"),
    ("pod", f"{C}.env", [{"name": "A"}, {"name": "A"}]),
    ("pod", "spec.tolerations", [{"operator": "Equal"}]),
    ("pod", "spec.tolerations", [{"key": "a", "operator": "Exists", "value": "x"}]),
    ("pod", "spec.tolerations", [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}]),
    ("pod", "spec.tolerations", [{"key": "a", "effect": "Never"}]),
    ("pod", "spec.tolerations", [{"key": "a", "operator": "Like"}]),
    (
        "pod",
        "spec.affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                }
            }
        },
    ),
    (
        "pod",
        "spec.affinity",
        {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": SELECTOR, "topologyKey": ""}]
            }
        },
    ),
    (
        "pod",
        "spec.topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
    ("podtemplate", "template.spec.containers", []),
    ("rc", "spec.template", GONE),
    ("rc", "spec.selector", {"app": "b"}),
    ("rc", "spec.replicas", -1),
    ("deployment", "spec", GONE),
    ("deployment", "spec.selector", GONE),
    ("deployment", "spec.selector", {}),
    ("deployment", "spec.selector", {"matchLabels": {"app": "b"}}),
    ("deployment", "spec.selector", {"matchExpressions": [{"key": "app", "operator": "In"}]}),
    ("deployment", "spec.template", GONE),
    ("deployment", "spec.template.spec.restartPolicy", "Never"),
    ("deployment", "spec.template.spec.activeDeadlineSeconds", 5),
    ("deployment", f"{T}.image", GONE),
    ("deployment", "spec.replicas", -1),
    ("deployment", "spec.minReadySeconds", -1),
    ("deployment", "spec.progressDeadlineSeconds", 0),
    ("deployment", "spec.strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
    ("deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
    ("deployment", "spec.strategy", {"rollingUpdate": {"maxUnavailable": "120%"}}),
    ("deployment", "spec.strategy", {"rollingUpdate": {"maxSurge": "many"}}),
    ("replicaset", "spec.selector", {"matchLabels": {"app": "b"}}),
    ("replicaset", "spec.selector", GONE),
    ("daemonset", "spec.selector", {}),
    ("daemonset", "spec.template.spec.restartPolicy", "Never"),
    ("daemonset", "spec.updateStrategy", {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
    ("statefulset", "spec.podManagementPolicy", "x"),
    ("statefulset", "spec.serviceName", "A"),
    ("statefulset", "spec.selector", GONE),
    ("statefulset", "metadata.name", "a.b"),
    ("statefulset", f"{T}.volumeMounts", [{"name": "none", "mountPath": "/x"}]),
    ("job", "spec.template", GONE),
    ("job", "spec.template.spec.restartPolicy", GONE),
    ("job", "spec.template.spec.restartPolicy", "Maybe"),
    ("job", "spec.completions", -1),
    ("job", "spec.parallelism", -1),
    ("job", "spec.backoffLimit", -1),
    ("job", "spec.completionMode", "Indexed"),
    ("job", "spec.completionMode", "x"),
    ("job", "spec.maxFailedIndexes", 1),
    ("job", "spec.backoffLimitPerIndex", 1),
    ("job", "spec.podReplacementPolicy", "x"),
    ("job", "spec.activeDeadlineSeconds", -1),
    ("job", "spec.ttlSecondsAfterFinished", -1),
    ("job", f"{T}.image", GONE),
    ("cronjob", "spec.schedule", GONE),
    ("cronjob", "spec.schedule", "* * *"),
    ("cronjob", "spec.schedule", "61 * * * *"),
    ("cronjob", "spec.schedule", "x * * * *"),
    ("cronjob", "spec.schedule", "5-1 * * * *"),
    ("cronjob", "spec.schedule", "@sometimes"),
    ("cronjob", "spec.schedule", "TZ=UTC 0 * * * *"),
    ("cronjob", "spec.concurrencyPolicy", "x"),
    ("cronjob", "spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
    ("cronjob", "metadata.name", "n" * 53),
    ("service", "spec.ports", []),
    ("service", "spec.ports", [{"port": 0}]),
    ("service", "spec.ports", [{"port": 80}, {"port": 81}]),
    ("service", "spec.ports", [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
    ("service", "spec.ports", [{"port": 80, "targetPort": "a_b"}]),
    ("service", "spec.ports", [{"port": 80, "protocol": "x"}]),
    ("service", "spec.ports", [{"port": 80, "nodePort": 30000}]),
    ("service", "spec.selector", {"a b": "c"}),
    ("service", "spec.type", "x"),
    ("service", "spec.type", "ExternalName"),
    ("service", "spec.sessionAffinity", "x"),
    ("service", "spec.externalIPs", ["x"]),
    ("service", "spec.externalTrafficPolicy", "Local"),
    ("endpoints", "subsets", [{}]),
    ("endpoints", "subsets", [{"addresses": [{"ip": "x"}]}]),
    ("endpoints", "subsets", [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 0}]}]),
    ("limits", "spec.limits", [{"type": "Thing"}]),
    ("limits", "spec.limits", [{"type": "Container", "max": {"cpu": 1}, "min": {"cpu": 2}}]),
    ("limits", "spec.limits", [{"type": "Pod", "default": {"cpu": 1}}]),
    ("limits", "spec.limits", [{"type": "Pod"}, {"type": "Pod"}]),
    ("quota", "spec.hard", {"gpus": 1}),
    ("quota", "spec.hard", {"pods": "1500m"}),
    ("quota", "spec.hard", {"cpu": "-1"}),
    ("claim", "spec.accessModes", GONE),
    ("claim", "spec.accessModes", ["x"]),
    ("claim", "spec.resources", GONE),
    ("claim", "spec.resources.requests.storage", 0),
    ("claim", "spec.storageClassName", "A"),
    ("claim", "spec.volumeMode", "x"),
    ("volume", "spec.capacity", GONE),
    ("volume", "spec.accessModes", GONE),
    ("volume", "spec.hostPath", GONE),
    ("volume", "spec.persistentVolumeReclaimPolicy", "x"),
    ("budget", "spec.maxUnavailable", 1),
    ("budget", "spec.minAvailable", "many"),
    ("budget", "spec.minAvailable", -1),
    ("autoscaler", "spec.maxReplicas", GONE),
    ("autoscaler", "spec.minReplicas", 5),
    ("autoscaler", "spec.minReplicas", 0),
    ("autoscaler", "spec.scaleTargetRef", {}),
    ("autoscaler", "spec.scaleTargetRef", {"apiVersion": "v1", "kind": "ReplicationController", "name": "a"}),
    ("autoscaler", "spec.metrics", [{"type": "x"}]),
    ("autoscaler", "spec.metrics", [{"type": "Resource"}]),
    ("autoscaler", "spec.metrics", [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "x"}}}]),
    ("ingress", "spec", {}),
    ("ingress", "spec.rules.0.host", "A"),
    ("ingress", "spec.rules.0.host", "1.2.3.4"),
    ("ingress", "spec.rules.0.http.paths", []),
    ("ingress", "spec.rules.0.http.paths.0.pathType", GONE),
    ("ingress", "spec.rules.0.http.paths.0.pathType", "x"),
    ("ingress", "spec.rules.0.http.paths.0.path", "x"),
    ("ingress", "spec.rules.0.http.paths.0.backend", {}),
    ("ingress", "spec.rules.0.http.paths.0.backend", {"service": {"name": "s"}}),
    ("ingress", "spec.rules.0.http.paths.0.backend.service.port", {"number": 80, "name": "x"}),
    ("ingress", "spec.ingressClassName", "A"),
    ("ingressclass", "spec.controller", "x y"),
    ("netpol", "spec.podSelector", {"matchLabels": {"a": "b c"}}),
    ("netpol", "spec.ingress.0.ports.0.port", 70000),
    ("netpol", "spec.ingress.0.ports.0.protocol", "x"),
    ("netpol", "spec.ingress.0.ports.0.endPort", 1),
    ("netpol", "spec.ingress.0.from", [{}]),
    ("netpol", "spec.egress.0.to.0.ipBlock.cidr", "x"),
    ("netpol", "spec.policyTypes", ["x"]),
    ("slice", "addressType", "x"),
    ("slice", "addressType", GONE),
    ("slice", "endpoints.0.addresses", []),
    ("slice", "endpoints.0.addresses", ["x"]),
    ("slice", "ports", [{"name": "a"}, {"name": "a"}]),
    ("storageclass", "provisioner", GONE),
    ("storageclass", "reclaimPolicy", "x"),
    ("storageclass", "volumeBindingMode", "x"),
    ("runtimeclass", "handler", GONE),
    ("lease", "spec.acquireTime", "2026-01-02T03:04:05Z"),
    ("lease", "spec.acquireTime", "2026-01-02T03:04:05.123456789Z"),
    ("lease", "spec.acquireTime", "2026-01-02"),
    ("secret", "data", {"k": "YQ"}),
    ("secret", "data", {"k": "YWJjYQ"}),
    ("secret", "data", {"k": "Y Q=="}),
    ("secret", "data", {"k k": ""}),
    ("configmap", "data", {"k k": ""}),
    ("configmap", "binaryData", {"k": "_-=="}),
    ("configmap", "data", {"..": ""}),
    ("configmap", "data", {"..x": ""}),
    ("configmap", "data", {"k" * 254: ""}),
    ("configmap", "data", {"k": "x" * (2**20 + 1)}),
    ("configmap", "binaryData", {"k": ""}),
    ("secret", "data", {"k": "AAAA" * (2**20 // 3 + 1)}),
    ("secret", "type", "kubernetes.io/tls"),
    ("secret", "type", "kubernetes.io/basic-auth"),
    ("secret", "type", "kubernetes.io/ssh-auth"),
    ("secret", "type", "kubernetes.io/dockerconfigjson"),
    ("secret", "type", "kubernetes.io/service-account-token"),
    ("runtimeclass", "handler", "A"),
]

# (the sound object, the field, its value): a merge of it into the stored object is refused
FROZEN: list[tuple[str, Body]] = [
    ("pod", {"spec": {"hostname": "a"}}),
    ("pod", {"spec": {"containers": [CONTAINER, {"name": "two", "image": "b"}]}}),
    (
        "deployment",
        {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}},
    ),
    ("statefulset", {"spec": {"serviceName": "t"}}),
    ("job", {"spec": {"completions": 3}}),
    ("job", {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}),
    ("job", {"spec": {"completionMode": "Indexed"}}),
    ("claim", {"spec": {"accessModes": ["ReadOnlyMany"]}}),
    ("storageclass", {"provisioner": "example.com/other"}),
    ("storageclass", {"reclaimPolicy": "Retain"}),
    ("storageclass", {"parameters": {"a": "b"}}),
    ("runtimeclass", {"handler": "other"}),
]

# What is sound, and is written another way than it was sent.
REWRITTEN: list[tuple[str, str, Any]] = [
    ("secret", "data", {"a": "YR==", "b": "YQ\n==", "c": "YWI\r\n="}),
    ("secret", "stringData", {"a": "b"}),
    ("configmap", "binaryData", {"a": "YR=="}),
    ("lease", "spec.acquireTime", "2026-01-02T05:04:05.000001+02:00"),
    (
        "deployment",
        f"{T}.resources",
        {"limits": {"cpu": "0.5", "memory": "1024Mi", GPU: "8"}, "requests": {"cpu": 0.25, "memory": "1e3", GPU: 8}},
    ),
    ("deployment", f"{T}.image", "busybox"),
    ("deployment", f"{T}.image", "busybox@sha256:" + "a" * 64),
    ("deployment", f"{T}.ports", [{"containerPort": 80}]),
    ("deployment", f"{T}.livenessProbe", {"httpGet": {"port": 80}}),
    ("deployment", f"{T}.env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ("deployment", "spec.template.spec.serviceAccountName", "sa"),
    (
        "deployment",
        "spec.template.spec.volumes",
        [
            {"name": "a"},
            {"name": "b", "secret": {"secretName": "s"}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "e", "hostPath": {"path": "/x"}},
            {"name": "f", "emptyDir": {"sizeLimit": "1024Mi"}},
        ],
    ),
    ("deployment", "spec.strategy", {"type": "Recreate"}),
    ("pod", f"{C}.resources", {"limits": {"cpu": 1, GPU: 2}}),
    ("pod", "spec.hostNetwork", True),
    ("job", "spec.parallelism", 4),
    ("job", "spec.backoffLimitPerIndex", GONE),
    ("service", "spec.type", "LoadBalancer"),
    ("service", "spec.clusterIP", "None"),
    ("service", "spec.sessionAffinity", "ClientIP"),
    ("daemonset", "spec.updateStrategy", {"type": "OnDelete"}),
    ("statefulset", "spec.updateStrategy", {"type": "OnDelete"}),
]


def edited(name: str, field: str, value: Any) -> tuple[str, Body]:
    """The sound object of that name with one field changed, and its collection."""
    path, sound = SOUND[name]
    body = copy.deepcopy(sound)
    *way, last = (int(step) if step.isdigit() else step for step in field.split("."))
    target: Any = body
    for step in way:
        target = target[step] if isinstance(step, int) else target.setdefault(step, {})
    if value is GONE:
        target.pop(last, None)
    else:
        target[last] = copy.deepcopy(value)
    return path, body


def named(cases: list[tuple[str, str, Any]]) -> Iterator[tuple[str, tuple[str, Body]]]:
    """Each case with a name that says it."""
    for name, field, value in cases:
        shown = "gone" if value is GONE else repr(value)[:60]
        yield f"{name} {field}={shown}", edited(name, field, value)
