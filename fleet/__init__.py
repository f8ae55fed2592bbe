"""Fleet: one queue and one quota for training jobs over many Kubernetes clusters."""

__version__ = "0.1.0"
