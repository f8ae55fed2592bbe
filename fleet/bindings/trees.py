"""The quota tree as the hub holds it: its object, the additions of its Queues, and the leaf of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleet.bindings import binding as b
from fleet.core.quota.parse import BadTree, parse_tree
from fleet.core.quota.tree import QuotaTree
from fleet.values.ports import Body, Store, StoredObject
from fleet.values.untyped import text
from fleet.wellknown import (
    ANNOTATION_QUOTA_FULLNAME,
    PODS_RUNNING_ANNOTATIONS,
    QUOTA,
    THRESHOLD_ANNOTATIONS,
    TREE_NAMESPACE,
)


def tree_object(store: Store) -> StoredObject | None:
    """The one ElasticQuotaTree (the oldest, should there ever be two)."""
    trees = [t for t in store.scan(QUOTA, "elasticquotatrees", namespace=TREE_NAMESPACE) if not b.deleting(t.body)]
    return min(trees, key=lambda t: (text(t.body["metadata"].get("creationTimestamp")), t.key.name), default=None)


def read_tree(stored: StoredObject | None, queues: Sequence[Body] = ()) -> QuotaTree | None:
    """The tree, each node's policy and turns as its Queue says; None when there is none that can be read (admission
    refuses bad trees, so only a restored or hand-made one can be)."""
    by_path = {b.annotation(queue, ANNOTATION_QUOTA_FULLNAME): queue for queue in queues}
    policies = {path: text(b.spec_of(queue).get("queuePolicy")) for path, queue in by_path.items()}
    thresholds = {path: threshold_of(queue) for path, queue in by_path.items()}
    try:
        return (
            parse_tree(
                stored.body["spec"],
                {path: policy for path, policy in policies.items() if path and policy},
                {path: least for path, least in thresholds.items() if path and least is not None},
                {path for path, queue in by_path.items() if path and one_at_a_time(queue)},
            )
            if stored
            else None
        )
    except (BadTree, LookupError, TypeError, AttributeError, ArithmeticError):  # the quota loop tells of it
        return None


class TreeReader:
    """The tree of one store, parsed again only when its object is another."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[int, QuotaTree | None] = (0, None)

    @property
    def revision(self) -> int:
        """Of the tree's object; 0 without one."""
        stored = tree_object(self._store)
        return stored.revision if stored is not None else 0

    def read(self) -> QuotaTree | None:
        """The tree without what its Queues add; None when there is none that can be read."""
        if self._read[0] != self.revision:
            self._read = (self.revision, read_tree(tree_object(self._store)))
        return self._read[1]


def one_at_a_time(queue: Body) -> bool:
    """Whether a Queue starts its next job only when all pods of the one before run."""
    return next((text for name in PODS_RUNNING_ANNOTATIONS if (text := b.annotation(queue, name))), "") == "true"


def threshold_of(queue: Body) -> int | None:
    """From which priority on a unit blocks its Intelligent queue, where the Queue says so in a way that parses."""
    said = next((text for name in THRESHOLD_ANNOTATIONS if (text := b.annotation(queue, name))), "")
    return int(said) if re.fullmatch(r"-?[0-9]{1,10}", said) else None
