"""Objects of a built-in and of a custom kind."""

from __future__ import annotations

from fleet.values.ports import Body

CONFIG_MAP: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
JOB: Body = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "train", "labels": {"team": "ml"}},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "torch:2"}]}}}
        }
    },
}
# Both a built-in and a custom kind: kubectl patches them differently.
OBJECTS = {"configmap": CONFIG_MAP, "pytorchjob": JOB}
