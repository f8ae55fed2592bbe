"""PyTorchJob: one Master, any number of Workers (or, elastic, Workers alone)."""

from fleet.kinds.kubeflow import KubeflowJob

PYTORCHJOB = KubeflowJob("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"))
