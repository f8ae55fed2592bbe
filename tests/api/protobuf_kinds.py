"""Objects of many built-in kinds for a real kube-apiserver: (path of the collection, object)."""

from __future__ import annotations

from typing import Any

SPACED = "/namespaces/default/"
LABELS = {"app": "web"}
POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "registry.example.com/c:1",
            "args": ["a", "b"],
            "ports": [{"containerPort": 80}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "readinessProbe": {"tcpSocket": {"port": "http"}},
            "securityContext": {"privileged": False, "runAsUser": 0},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s"}}],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
            }
        }
    },
    "automountServiceAccountToken": False,
}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
ONCE = {**POD_SPEC, "restartPolicy": "Never"}
SELECTOR = {"matchLabels": LABELS}
RULE = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 3, "enum": [1, 3]},
        "share": {"type": "number", "minimum": 0.5, "maximum": 1.5, "default": 1.25},
        "any": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "m"}],
}


def _one(api_version: str, kind: str, plural: str, spaced: bool = True, **rest: Any) -> tuple[str, dict[str, Any]]:
    base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"one-{plural}", "labels": LABELS}, **rest}
    return base + (SPACED if spaced else "/") + plural, body


OBJECTS = [
    _one("v1", "ConfigMap", "configmaps", data={"k": "v", "e": ""}, binaryData={"b": "AAEC"}, immutable=True),
    _one("v1", "Secret", "secrets", stringData={"k": "v"}, type="Opaque"),
    _one("v1", "ServiceAccount", "serviceaccounts", automountServiceAccountToken=False, metadata={"name": "default"}),
    _one("v1", "Pod", "pods", spec={**POD_SPEC, "nodeName": "n"}),
    _one(
        "v1",
        "Service",
        "services",
        spec={
            "selector": LABELS,
            "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": "http"}],
        },
    ),
    _one(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    ),
    _one(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        False,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        },
    ),
    _one("v1", "Node", "nodes", False, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
    _one("v1", "ResourceQuota", "resourcequotas", spec={"hard": {"requests.cpu": "1500m", "pods": "4"}}),
    _one("v1", "LimitRange", "limitranges", spec={"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}),
    _one(
        "v1",
        "Event",
        "events",
        involvedObject={"kind": "Pod", "name": "p", "namespace": "default"},
        reason="R",
        firstTimestamp="2024-01-02T03:04:05Z",
        eventTime=None,
        count=1,
    ),
    _one("apps/v1", "Deployment", "deployments", spec={"replicas": 0, "selector": SELECTOR, "template": TEMPLATE}),
    _one("apps/v1", "DaemonSet", "daemonsets", spec={"selector": SELECTOR, "template": TEMPLATE}),
    _one(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        spec={
            "selector": SELECTOR,
            "template": TEMPLATE,
            "serviceName": "s",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
    ),
    _one("batch/v1", "Job", "jobs", spec={"suspend": True, "backoffLimit": 0, "template": {"spec": ONCE}}),
    _one(
        "batch/v1",
        "CronJob",
        "cronjobs",
        spec={
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": {"spec": ONCE}}},
        },
    ),
    _one(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        spec={
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "100m"}},
                }
            ],
        },
    ),
    _one(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        spec={
            "minAvailable": "25%",
            "selector": SELECTOR,
        },
    ),
    _one(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        spec={
            "podSelector": {},
            "ingress": [{"ports": [{"port": 80}, {"port": "http"}], "from": [{"podSelector": SELECTOR}]}],
        },
    ),
    _one(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        spec={
            "rules": [
                {
                    "host": "a.example",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "s", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ]
        },
    ),
    _one("storage.k8s.io/v1", "StorageClass", "storageclasses", False, provisioner="example.com/p"),
    _one("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False, value=0),
    _one(
        "coordination.k8s.io/v1",
        "Lease",
        "leases",
        spec={
            "holderIdentity": "h",
            "leaseDurationSeconds": 15,
            "renewTime": "2024-01-02T03:04:05.000006Z",
        },
    ),
    _one(
        "rbac.authorization.k8s.io/v1",
        "Role",
        "roles",
        rules=[
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        ],
    ),
    _one(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        False,
        rules=[],
        aggregationRule={"clusterRoleSelectors": [SELECTOR]},
    ),
    _one(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        subjects=[{"kind": "User", "name": "u"}],
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    ),
    _one(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}],
        ports=[{"port": 80}],
    ),
    _one("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", False, handler="h", overhead={"podFixed": {"cpu": "10m"}}),
    _one(
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        "flowschemas",
        False,
        spec={
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 9000,
        },
    ),
    _one(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
        spec={
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": "object.spec.replicas <= 5"}],
        },
    ),
    _one(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        False,
        spec={
            "signerName": "example.com/s",
            "usages": ["client auth"],
            "request": "REQUEST",
        },
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.proto.example.com"},
            "spec": {
                "group": "proto.example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
            },
        },
    ),
]
