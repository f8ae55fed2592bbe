"""TFJob: a chief (Chief or Master), parameter servers, Workers, an Evaluator."""

from fleet.kinds.kubeflow import KubeflowJob

TFJOB = KubeflowJob("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator"))
