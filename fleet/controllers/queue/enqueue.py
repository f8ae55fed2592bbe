"""Suspended bindings → QueueUnits: each waits in the Queue of its leaf, visible to users under its own name.

A unit is a view of its binding: made when the binding waits, taken away when it no longer waits and never left the
queue, moved when the tree or the job's namespace is hung elsewhere, made again when a user deletes it. decide and
observe write its later phases, after it left the queue (Dequeued, Running, …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings import claims
from fleet.bindings.components import requests_of, total
from fleet.bindings.extent import excess_of, set_aside
from fleet.bindings.leaf import leaf_for
from fleet.bindings.trees import TreeReader
from fleet.bindings.unit import (
    BACKING_OFF,
    ENQUEUED,
    PLACED_PHASES,
    RESERVED,
    binding_of,
    owned_by,
    phase_of,
    queue_of,
    requeue_at,
    unit_key,
)
from fleet.controllers.fields.starting import dequeued
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.news import News
from fleet.core.model.reason import Code, Reason
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.quantity import BadQuantity
from fleet.values.times import rfc3339
from fleet.values.untyped import whole
from fleet.wellknown import (
    ANNOTATION_PRIORITY,
    ANNOTATION_PRIORITY_CLASS,
    ANNOTATION_QUOTA_FULLNAME,
    QUEUE,
    QUEUE_NAMESPACE,
    QUOTA,
    WORK,
)

_SIZES = ("resource", "request", "podSet")  # of a unit's spec: the requests of its gang


class EnqueueLoop:
    """Keeps the QueueUnits of all bindings."""

    name = "enqueue"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._tree = TreeReader(hub.store)
        self._queues_mark: object = None
        self._news = News()  # of bindings and units out of their queue, whose status is not read here
        sources = [
            Source(WORK, "resourcebindings", self._on_binding),
            Source(QUEUE, "queueunits", self._on_unit),
            Source(QUEUE, "queues", self._all),
            Source(QUOTA, "elasticquotatrees", self._all),
            Source("scheduling.k8s.io", "priorityclasses", self._of_class),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=64)

    async def run(self) -> None:
        await self.controller.run()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        new = self._news.is_new(event)
        return (event.stored.key,) if new or not b.clusters_of(event.stored.body) else ()

    def _on_unit(self, event: Event) -> Iterable[Key]:
        new = self._news.is_new(event)
        return (binding_of(event.stored),) if new or phase_of(event.stored.body) not in PLACED_PHASES else ()

    def _all(self, event: Event) -> Iterable[Key]:
        """Queues and the tree say where units wait: all waiting units are looked at when they change."""
        mark = (self._tree.revision, tuple(sorted(self._queues().items())))
        if mark == self._queues_mark:
            return
        self._queues_mark = mark
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if b.is_gang(stored.body):
                yield stored.key

    def _of_class(self, event: Event) -> Iterable[Key]:
        """Units whose class a person chose; the bindings of the others follow by themselves."""
        for stored in self._hub.scan(QUEUE, "queueunits"):
            if b.spec_of(stored.body).get("priorityClassName") == event.stored.key.name:
                yield binding_of(stored)

    def _class_value(self, name: str) -> int | None:
        body = self._hub.peek("scheduling.k8s.io", "priorityclasses", "", name)
        return whole(body.get("value")) if body is not None else None

    def _queues(self) -> dict[str, str]:
        """Names of the Queues by full quota path."""
        found: dict[str, str] = {}
        for stored in self._hub.scan(QUEUE, "queues", QUEUE_NAMESPACE):
            path = b.annotation(stored.body, ANNOTATION_QUOTA_FULLNAME)
            if path and not b.deleting(stored.body):
                found.setdefault(path, stored.key.name)
        return found

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None or not b.is_gang(stored.body):
            return None
        unit = self._hub.store.peek(unit_key(key))
        if unit is not None and not owned_by(unit.body, stored.uid):
            return 1.0  # of a binding of this name that is gone, and leaves first
        if b.deleting(stored.body):
            return None
        if not b.queued(stored.body):
            waits = not b.clusters_of(stored.body) and not b.tasks_of(stored.body)
            if unit is not None and waits and not b.deleting(unit.body):
                await self._hub.delete(unit.key, uid=unit.uid)  # its policy let it go
            elif unit is not None:
                await self._follow(stored, unit)
            elif b.clusters_of(stored.body) and b.under_quota(stored.body) and not b.finished(stored.body):
                return await self._charge(stored)
            return None
        return await self._keep(stored, unit)

    async def _follow(self, stored: StoredObject, unit: StoredObject) -> None:
        """A unit that left its queue stays in it, unless the queue went with a tree that was deleted. Then the unit is
        in the queue of its leaf in the present tree, which it is charged to. The unit has the requests of its
        binding."""
        binding, name = stored.body, queue_of(unit.body)
        if self._hub.peek(QUEUE, "queues", QUEUE_NAMESPACE, name) is None:
            name = self._queues().get(self._leaf(binding), name)
        spec = unit_spec(binding, stored, name)
        wanted = {field: spec[field] for field in ("queue", *_SIZES)}
        await self._hub.edit(unit.key, partial(_settle, wanted=wanted), uid=unit.uid)

    async def _charge(self, stored: StoredObject) -> float | None:
        """The unit of a gang that got its room without a unit, since its policy came to queue while it ran. The unit
        belongs to the queue of its leaf, and has left it."""
        binding, now = stored.body, self._hub.clock.now()
        queue = self._queues().get(self._leaf(binding), "")
        if not queue:
            return None  # a Queue that comes brings the next look
        body = new_unit(stored, unit_spec(binding, stored, queue), now, None)
        dequeued(body, binding, b.clusters_of(binding)[0], b.attempt(binding), now)
        return None if await self._hub.create(QUEUE, "queueunits", stored.key.namespace, body) else 1.0

    def _leaf(self, binding: Body) -> str:
        namespace = binding["spec"]["resource"].get("namespace", "")
        return leaf_for(self._tree.read(), namespace, binding["metadata"].get("labels") or {})

    async def _keep(self, stored: StoredObject, unit: StoredObject | None) -> float | None:
        binding, now = stored.body, self._hub.clock.now()
        tree, leaf = self._tree.read(), self._leaf(binding)
        spec = unit_spec(binding, stored, self._queues().get(leaf, ""))
        if unit is None:
            missing = None
            if tree is None or not tree.is_leaf(leaf):
                missing = Reason(Code.NO_LEAF, {"leaf": leaf, "tree": "none" if tree is None else tree.root})
            body = new_unit(stored, spec, now, missing)
            return None if await self._hub.create(QUEUE, "queueunits", stored.key.namespace, body) else 1.0
        await self._hub.edit(unit.key, lambda body: settle_unit(body, spec, now, self._class_value), uid=unit.uid)
        if phase_of(unit.body) == BACKING_OFF:
            until = requeue_at(unit.body)
            return max(0.0, until - now) + 0.01 if until is not None and until > now else None
        return None


def _settle(unit: Body, wanted: Body) -> bool:
    spec = unit.setdefault("spec", {})
    changed = any(spec.get(field) != value for field, value in wanted.items())
    spec.update(wanted)
    return changed


def unit_spec(binding: Body, stored: StoredObject, queue: str) -> Body:
    components = b.component_bodies(binding if excess_of(binding) is None else set_aside(binding))
    try:
        resource = total(components)
    except BadQuantity:
        resource = {}
    spec: Body = {
        "consumerRef": {
            "apiVersion": f"{WORK}/v1alpha2",
            "kind": "ResourceBinding",
            "namespace": stored.key.namespace,
            "name": stored.key.name,
        },
        "queue": queue,
        "priority": b.priority_of(binding),
        "resource": resource,
        "request": resource,
        "podSet": [
            {
                "name": component["name"],
                "count": component["replicas"],
                "requests": requests_of(component),
            }
            for component in components
        ],
    }
    names = [(c.get("replicaRequirements") or {}).get("priorityClassName") for c in components]
    if any(names):
        spec["priorityClassName"] = next(name for name in names if name)
    return spec


def new_unit(stored: StoredObject, spec: Body, now: float, missing: Reason | None) -> Body:
    """The unit with its first status, to be written at once. `missing`: the unit has no queue."""
    status: Body = {"phase": ENQUEUED, "lastUpdateTime": rfc3339(now), "podState": {"running": 0, "pending": 0}}
    if missing is not None:
        status["message"] = missing.text
        status["reason"] = {"code": str(missing.code), "numbers": missing.figures}
    return {
        "apiVersion": f"{QUEUE}/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {
            "name": unit_key(stored.key).name,
            "namespace": stored.key.namespace,
            "annotations": {
                ANNOTATION_PRIORITY: str(spec["priority"]),
                ANNOTATION_PRIORITY_CLASS: spec.get("priorityClassName", ""),
            },
            "ownerReferences": [
                {
                    "apiVersion": f"{WORK}/v1alpha2",
                    "kind": "ResourceBinding",
                    "name": stored.key.name,
                    "uid": stored.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
        "status": status,
    }


def _asks_else(said: Body, wanted: Body) -> bool:
    """Whether the unit waits in another queue now, or asks for something else, than when room was claimed for it. A
    unit that changed so may have lost its right to that room."""
    moved = said.get("queue") and wanted.get("queue") and said["queue"] != wanted["queue"]
    return bool(moved) or ("podSet" in said and said["podSet"] != wanted["podSet"])


def settle_unit(unit: Body, spec: Body, now: float, class_value: Callable[[str], int | None]) -> bool:
    """Bring a waiting binding's unit in line, in place; False when it was. `active` and the like are the user's. So are
    a priority and a PriorityClass other than the ones that were written here last. A class that a person chose stands
    for its value (`class_value`, None when there is no such class) until a person gives a priority beside it."""
    annotations = unit["metadata"].setdefault("annotations", {})
    now_says, target, status = unit.setdefault("spec", {}), dict(spec), unit.setdefault("status", {})
    before = dict(annotations), dict(now_says), dict(status)
    noted_class = annotations.get(ANNOTATION_PRIORITY_CLASS)
    chosen = str(now_says.get("priorityClassName") or "")
    if noted_class is not None and chosen and chosen != noted_class:
        value = class_value(chosen)
        target["priority"] = spec["priority"] if value is None else value
        target["priorityClassName"] = chosen
    else:
        annotations[ANNOTATION_PRIORITY_CLASS] = spec.get("priorityClassName", "")
        now_says.pop("priorityClassName", None)
    noted = annotations.get(ANNOTATION_PRIORITY)
    if noted is not None and str(now_says.get("priority", noted)) != noted:
        del target["priority"]
    else:
        annotations[ANNOTATION_PRIORITY] = str(target["priority"])
    if _asks_else(now_says, target):
        claims.release(unit)
    now_says.update(target)
    until = requeue_at(unit)
    phase = BACKING_OFF if until is not None and until > now else ENQUEUED
    if phase_of(unit) not in (phase, RESERVED):
        status.update(phase=phase, lastUpdateTime=rfc3339(now), podState={"running": 0, "pending": 0})
    return before != (annotations, now_says, status)
