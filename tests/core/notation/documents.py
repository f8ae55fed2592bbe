"""A snapshot that a person wrote."""

from __future__ import annotations

BY_HAND = """
{"version": 1,
 "tree": {"nodes": {"root": {}, "root/ml": {"max": {"nvidia.com/gpu": 8, "memory": "64Gi"}}}},
 "units": [{"id": "a", "leaf": "root/ml", "components": [
    {"name": "worker", "replicas": 2, "requests": {"nvidia.com/gpu": 4, "cpu": "500m"},
     "claim": {"node_selector": {"model": "A100"}}}]}],
 "members": [{"name": "x", "pools": [
    {"labels": {"model": "A100"}, "free": [[{"nvidia.com/gpu": 8, "cpu": "96"}, 1]]}]}]}
"""
