"""The quota tree and its Queues as admission rules look at them."""

from __future__ import annotations

from fleet.ports import Store
from fleet.quota.parse import BadTree, parse_tree
from fleet.quota.tree import QuotaTree
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE, QUOTA, TREE_NAMESPACE


class Leaves:
    """What the store holds now; the tree is parsed again only when it is another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[object, QuotaTree | None] = (None, None)

    def tree(self) -> QuotaTree | None:
        """None without a tree that can be read: then no job is charged anywhere."""
        trees = self._store.scan(QUOTA, "elasticquotatrees", namespace=TREE_NAMESPACE)
        mark = tuple((stored.uid, stored.revision) for stored in trees)
        if self._read[0] != mark:
            try:
                self._read = (mark, parse_tree(trees[0].body["spec"], {}) if trees else None)
            except (BadTree, LookupError, TypeError, AttributeError, ArithmeticError):  # the quota loop tells of it
                self._read = (mark, None)
        return self._read[1]

    def queue_of(self, leaf: str) -> str:
        """The name of the leaf's Queue; "" while it has none."""
        for stored in self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE):
            if (stored.body["metadata"].get("annotations") or {}).get(ANNOTATION_QUOTA_FULLNAME) == leaf:
                return stored.key.name
        return ""
