"""Which leaf of the quota tree a job belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.core.model.reason import NAMESPACE
from fleet.core.quota.tree import QuotaTree
from fleet.wellknown import QUOTA_NAME_LABELS


def leaf_for(tree: QuotaTree | None, namespace: str, labels: Mapping[str, str]) -> str:
    """The leaf that a job belongs to: by its quota-name label (a name or a full path), else by its namespace. A leaf
    that the tree does not have comes back as people would name it, and is decided as NoQueue."""
    for label in QUOTA_NAME_LABELS:
        wanted = labels.get(label)
        if wanted:
            nodes = tree.nodes.items() if tree is not None else ()
            return next((path for path, node in nodes if wanted in (path, node.name) and not node.children), wanted)
    return (tree.leaf_of(namespace) if tree is not None else None) or f"{NAMESPACE}{namespace}"
