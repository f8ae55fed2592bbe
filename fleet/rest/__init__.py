"""/fleet/v1: jobs, queues, clusters and decisions for people and programs that are not Kubernetes clients."""
