"""PaddleJob: Workers, and a Master where it is not collective."""

from fleet.kinds.kubeflow import KubeflowJob

PADDLEJOB = KubeflowJob("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker"))
