"""A good node, a good pod and good sources of place trees, as a member lists them."""

from __future__ import annotations

from fleet.values.ports import Body
from fleet.wellknown import LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB

NODE: Body = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "good", "uid": "n", "labels": {"zone": "a"}, "creationTimestamp": "2025-01-01T00:00:00Z"},
    "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], "unschedulable": False},
    "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "good",
        "namespace": "default",
        "uid": "good",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": {LABEL_HUB: "hub", LABEL_BINDING: "b", LABEL_COMPONENT: "worker", "fleet.io/attempt": "1"},
        "annotations": {"fleet.io/checkpoint-at": "2025-01-01T00:00:00Z"},
    },
    "spec": {
        "nodeName": "good",
        "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}],
        "overhead": {"cpu": "1m"},
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
    },
}
HYPERNODE_BODY: Body = {
    "apiVersion": "topology.volcano.sh/v1alpha1",
    "kind": "HyperNode",
    "metadata": {"name": "good", "uid": "h"},
    "spec": {
        "tier": 1,
        "tierName": "rack",
        "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "good"}}},
            {"type": "Node", "selector": {"regexMatch": {"pattern": "^go+d$"}}},
            {
                "type": "Node",
                "selector": {
                    "labelMatch": {
                        "matchLabels": {"zone": "a"},
                        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                    }
                },
            },
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "other"}}},
        ],
    },
}
TOPOLOGY_BODY: Body = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "good", "uid": "t"},
    "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}
