"""JAXJob: Workers alone; the first coordinates."""

from fleet.kinds.kubeflow import KubeflowJob

JAXJOB = KubeflowJob("JAXJob", "jaxReplicaSpecs", ("Worker",))
