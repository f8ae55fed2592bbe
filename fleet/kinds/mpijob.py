"""MPIJob (v1): a Launcher that starts the ranks, and the Workers that run them."""

from fleet.kinds.kubeflow import KubeflowJob

MPIJOB = KubeflowJob("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"))
