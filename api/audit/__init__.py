"""The audit log: a record of each request, and the places to which its events go."""
