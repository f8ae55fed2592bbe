"""ElasticQuotaTree → Queue objects: a Queue for each node of the tree, and none for nodes that are gone.

Users look at queues, and tune one by its `queuePolicy`; so a node that stays keeps its Queue, name and all. A tree
that cannot be read changes nothing: the queues stay as they were until it can. A node of which no Queue can be made
costs its own Queue alone; the tree says so.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import structlog

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.trees import tree_object
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.quota.parse import BadTree, parse_tree
from fleet.core.quota.queuenames import queue_prefix, queue_problem
from fleet.core.quota.tree import QuotaNode
from fleet.values.ports import Body, Event, Key, StaleEpoch, StoredObject, StoreUnavailable
from fleet.values.untyped import mapping, text
from fleet.wellknown import (
    ANNOTATION_QUOTA_FULLNAME,
    ANNOTATION_QUOTA_PARENT,
    QUEUE,
    QUEUE_FAILED,
    QUEUE_NAMESPACE,
    QUOTA,
    TREE_NAMESPACE,
)

log = structlog.get_logger(__name__)

GIVEN_UP, INSTEAD = "Round", "Priority"  # queue policies
_THE_TREE = Key(QUOTA, "elasticquotatrees", TREE_NAMESPACE, "")  # there is one: every event asks for the same work


def queue_body(node: QuotaNode) -> Body:
    return {
        "apiVersion": f"{QUEUE}/v1alpha1",
        "kind": "Queue",
        "metadata": {
            "generateName": queue_prefix(node.path),
            "namespace": QUEUE_NAMESPACE,
            "annotations": {ANNOTATION_QUOTA_FULLNAME: node.path, ANNOTATION_QUOTA_PARENT: node.parent or ""},
        },
        "spec": {"queuePolicy": node.policy},
    }


def _always(event: Event) -> list[Key]:
    return [_THE_TREE]


class QuotaLoop:
    """Keeps the Queues of the tree."""

    name = "quota"

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._warned_keys: set[Key] = set()
        sources = [Source(QUOTA, "elasticquotatrees", _always), Source(QUEUE, "queues", _always)]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=1)

    async def run(self) -> None:
        self.controller.queue.add(_THE_TREE)
        await self.controller.run()

    async def reconcile(self, key: Key) -> float | None:
        stored = tree_object(self._hub.store)
        nodes = {}
        if stored is not None:
            try:
                nodes = dict(parse_tree(stored.body["spec"]).nodes)
            except (BadTree, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                log.warning("the quota tree cannot be read", tree=str(stored.key), error=str(error))
                await self._tell(stored.key, error)
                return None
        have: dict[str, StoredObject] = {}
        surplus: list[StoredObject] = []
        queues = self._hub.scan(QUEUE, "queues", QUEUE_NAMESPACE)
        for queue in sorted(queues, key=lambda q: (text(q.body["metadata"].get("creationTimestamp")), q.key.name)):
            path = b.annotation(queue.body, ANNOTATION_QUOTA_FULLNAME)
            if not path:
                continue
            if path in nodes and path not in have:
                have[path] = queue
            else:
                surplus.append(queue)
        failed: Exception | None = None
        for path, node in nodes.items():
            if path not in have:
                failed = await self._make(stored, node) or failed
            else:
                await self._each(have[path].key, self._hub.edit(have[path].key, partial(_settle, node=node)))
        for queue in surplus:
            await self._each(queue.key, self._hub.delete(queue.key, uid=queue.uid))
        if stored is not None:
            await self._tell(stored.key, failed)
        return None

    async def _make(self, tree: StoredObject | None, node: QuotaNode) -> Exception | None:
        """Make the Queue of one node. A failure, which it returns, costs this node alone; the tree says which."""
        try:
            await self._hub.create(QUEUE, "queues", QUEUE_NAMESPACE, queue_body(node))
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            log.warning("no Queue can be made of a node", path=node.path, error=repr(error)[:300])
            if tree is not None:
                why = queue_problem(node.path) or type(error).__name__
                await self._events.once(tree.body, QUEUE_FAILED, f"{node.path} has no Queue: {why}")
            return error
        return None

    async def _each(self, key: Key, write: Awaitable[object]) -> None:
        """One Queue that cannot be written costs itself alone."""
        try:
            await write
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            log.warning("a Queue cannot be written", key=str(key), error=repr(error)[:300])
            await self._tell(key, error)
        else:
            await self._tell(key, None)

    async def _tell(self, key: Key, error: Exception | None) -> None:
        """Say on the object that it cannot be handled, or no longer."""
        teller = self.controller.teller
        if teller is None or (error is None and key not in self._warned_keys):
            return
        if error is None:
            self._warned_keys.discard(key)
            await teller.handled(self.name, key)
        elif key not in self._warned_keys:
            self._warned_keys.add(key)
            await teller.tell(self.name, key, error)


def _settle(queue: Body, node: QuotaNode) -> bool:
    """Bring a Queue in line with its node, in place; False when it was. `Round` is a policy that Kube Queue gave up: a
    Queue that still asks for it gets Priority, as there."""
    annotations = queue["metadata"].setdefault("annotations", {})
    spec = queue["spec"] = dict(mapping(queue.get("spec")))
    before = annotations.get(ANNOTATION_QUOTA_PARENT), spec.get("queuePolicy")
    annotations[ANNOTATION_QUOTA_PARENT] = node.parent or ""
    if spec.get("queuePolicy") == GIVEN_UP:
        spec["queuePolicy"] = INSTEAD
    return before != (annotations[ANNOTATION_QUOTA_PARENT], spec.get("queuePolicy"))
