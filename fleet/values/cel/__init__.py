"""CEL as Kubernetes speaks it: read, checked for types and cost, and run within a budget."""
