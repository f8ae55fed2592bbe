"""One sound object of each built-in kind."""

from __future__ import annotations

import copy
from typing import Any

Body = dict[str, Any]

LABELS = {"app": "a"}
SELECTOR = {"matchLabels": LABELS}
CONTAINER: Body = {"name": "main", "image": "example.com/train:1"}


def _pod(restart: str, **spec: Any) -> Body:
    return {"restartPolicy": restart, "containers": [copy.deepcopy(CONTAINER)], **spec}


def _template(restart: str = "Always") -> Body:
    return {"metadata": {"labels": LABELS}, "spec": _pod(restart)}


def _object(api_version: str, kind: str, **rest: Any) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **copy.deepcopy(rest)}


# name -> (path of the collection, the object)
SOUND: dict[str, tuple[str, Body]] = {
    "pod": ("/api/v1/namespaces/checks/pods", _object("v1", "Pod", spec=_pod("Never"))),
    "podtemplate": ("/api/v1/namespaces/checks/podtemplates", _object("v1", "PodTemplate", template=_template())),
    "secret": ("/api/v1/namespaces/checks/secrets", _object("v1", "Secret", data={"k": "YQ=="})),
    "configmap": ("/api/v1/namespaces/checks/configmaps", _object("v1", "ConfigMap", data={"k": "v"})),
    "rc": (
        "/api/v1/namespaces/checks/replicationcontrollers",
        _object("v1", "ReplicationController", spec={"template": _template()}),
    ),
    "service": (
        "/api/v1/namespaces/checks/services",
        _object("v1", "Service", spec={"selector": LABELS, "ports": [{"port": 80}]}),
    ),
    "endpoints": (
        "/api/v1/namespaces/checks/endpoints",
        _object("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]),
    ),
    "limits": (
        "/api/v1/namespaces/checks/limitranges",
        _object(
            "v1", "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "0.1"}}]}
        ),
    ),
    "quota": (
        "/api/v1/namespaces/checks/resourcequotas",
        _object("v1", "ResourceQuota", spec={"hard": {"cpu": "1000m", "requests.nvidia.com/gpu": 8}}),
    ),
    "claim": (
        "/api/v1/namespaces/checks/persistentvolumeclaims",
        _object(
            "v1",
            "PersistentVolumeClaim",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
        ),
    ),
    "volume": (
        "/api/v1/persistentvolumes",
        _object(
            "v1",
            "PersistentVolume",
            spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}},
        ),
    ),
    "deployment": (
        "/apis/apps/v1/namespaces/checks/deployments",
        _object("apps/v1", "Deployment", spec={"selector": SELECTOR, "template": _template()}),
    ),
    "replicaset": (
        "/apis/apps/v1/namespaces/checks/replicasets",
        _object("apps/v1", "ReplicaSet", spec={"selector": SELECTOR, "template": _template()}),
    ),
    "daemonset": (
        "/apis/apps/v1/namespaces/checks/daemonsets",
        _object("apps/v1", "DaemonSet", spec={"selector": SELECTOR, "template": _template()}),
    ),
    "statefulset": (
        "/apis/apps/v1/namespaces/checks/statefulsets",
        _object(
            "apps/v1",
            "StatefulSet",
            spec={
                "selector": SELECTOR,
                "template": _template(),
                "serviceName": "s",
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            },
        ),
    ),
    "job": ("/apis/batch/v1/namespaces/checks/jobs", _object("batch/v1", "Job", spec={"template": _template("Never")})),
    "cronjob": (
        "/apis/batch/v1/namespaces/checks/cronjobs",
        _object(
            "batch/v1",
            "CronJob",
            spec={"schedule": "*/5 1-3 * jan mon", "jobTemplate": {"spec": {"template": _template("OnFailure")}}},
        ),
    ),
    "budget": (
        "/apis/policy/v1/namespaces/checks/poddisruptionbudgets",
        _object("policy/v1", "PodDisruptionBudget", spec={"selector": SELECTOR, "minAvailable": "50%"}),
    ),
    "autoscaler": (
        "/apis/autoscaling/v2/namespaces/checks/horizontalpodautoscalers",
        _object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={
                "maxReplicas": 3,
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "behavior": {},
            },
        ),
    ),
    "ingress": (
        "/apis/networking.k8s.io/v1/namespaces/checks/ingresses",
        _object(
            "networking.k8s.io/v1",
            "Ingress",
            spec={
                "rules": [
                    {
                        "host": "a.example.com",
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
    ),
    "ingressclass": (
        "/apis/networking.k8s.io/v1/ingressclasses",
        _object(
            "networking.k8s.io/v1",
            "IngressClass",
            spec={"controller": "example.com/c", "parameters": {"kind": "P", "name": "p"}},
        ),
    ),
    "netpol": (
        "/apis/networking.k8s.io/v1/namespaces/checks/networkpolicies",
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={
                "podSelector": SELECTOR,
                "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}],
                "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
            },
        ),
    ),
    "slice": (
        "/apis/discovery.k8s.io/v1/namespaces/checks/endpointslices",
        _object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            addressType="IPv4",
            endpoints=[{"addresses": ["10.1.2.3"]}],
            ports=[{"port": 80}],
        ),
    ),
    "storageclass": (
        "/apis/storage.k8s.io/v1/storageclasses",
        _object("storage.k8s.io/v1", "StorageClass", provisioner="example.com/disk"),
    ),
    "csidriver": ("/apis/storage.k8s.io/v1/csidrivers", _object("storage.k8s.io/v1", "CSIDriver", spec={})),
    "runtimeclass": ("/apis/node.k8s.io/v1/runtimeclasses", _object("node.k8s.io/v1", "RuntimeClass", handler="gpu")),
    "flowschema": (
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        _object(
            "flowcontrol.apiserver.k8s.io/v1",
            "FlowSchema",
            spec={"priorityLevelConfiguration": {"name": "global-default"}},
        ),
    ),
    "lease": (
        "/apis/coordination.k8s.io/v1/namespaces/checks/leases",
        _object(
            "coordination.k8s.io/v1",
            "Lease",
            spec={"holderIdentity": "a", "leaseDurationSeconds": 10, "acquireTime": "2026-01-02T03:04:05.000000Z"},
        ),
    ),
    "class": ("/apis/scheduling.k8s.io/v1/priorityclasses", _object("scheduling.k8s.io/v1", "PriorityClass", value=10)),
}
