"""The quota tree and its Queues as admission rules look at them."""

from __future__ import annotations

from fleet.admission.latesttree import latest_tree
from fleet.bindings import binding as b
from fleet.core.quota.tree import QuotaTree
from fleet.values.ports import Store
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE


class Leaves:
    """The present state of the store; the tree is parsed again only when it is another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tree = latest_tree(store)

    def tree(self) -> QuotaTree | None:
        """None without a tree that can be read: then no job is charged anywhere."""
        return self._tree.read()

    async def refresh(self) -> None:
        """Parse a large tree that is new beside the event loop, before `tree()` would do so on it."""
        await self._tree.read_apart()

    def queue_of(self, leaf: str) -> str:
        """The name of the leaf's Queue; "" while it has none."""
        for stored in self._store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE):
            if b.annotation(stored.body, ANNOTATION_QUOTA_FULLNAME) == leaf:
                return stored.key.name
        return ""
