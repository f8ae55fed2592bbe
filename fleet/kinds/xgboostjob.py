"""XGBoostJob: one Master and any number of Workers."""

from fleet.kinds.kubeflow import KubeflowJob

XGBOOSTJOB = KubeflowJob("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker"))
