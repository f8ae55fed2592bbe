"""Garbage collection: the promise of owner references. The hub runs it, and so does each simulated member.

An object whose owners are all gone goes too; an object that lost some of its owners loses the references. An owner
deleted in the foreground stays until its dependents are gone. An owner that orphans them stays until they are let go.

One index, owner uid to dependents, is fed by a watch of every kind that the registry knows; so the end of an object
costs its dependents and nothing else. The index only proposes: before anything is deleted its owners are looked up
in the store itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from api.engine.kind import Kind
from api.engine.status import StatusError
from api.loops.controller import Controller, Source
from api.objects.objects import Objects
from api.objects.writing import Options
from fleet.values.ports import Body, Event, EventType, Key
from fleet.values.untyped import rows, text, texts

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
KINDS_EVERY_S = 1.0  # how soon a new kind is followed


def _references(meta: Body) -> Sequence[Body]:
    """Its owner references that name an owner's uid."""
    found = rows(meta.get("ownerReferences"))
    return found if all(isinstance(ref.get("uid"), str) for ref in found) else [r for r in found if text(r.get("uid"))]


class GarbageCollector:
    """A Loop. `options` names who deletes, and carries the leader's epoch on the hub."""

    name = "garbage"

    def __init__(self, objects: Objects, options: Options, *, workers: int = 4) -> None:
        self._objects, self._options = objects, options
        self._store, self._registry = objects.store, objects.registry
        self._dependents: dict[str, set[Key]] = {}  # owner uid -> keys
        self._owners: dict[Key, tuple[str, ...]] = {}  # dependent -> owner uids
        self._waiting: dict[str, Key] = {}  # uid of what waits for its dependents -> key
        self.controller = Controller(self.name, self._store, (), self._reconcile, workers=workers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.controller.run())
            group.create_task(self._follow_kinds())

    async def _follow_kinds(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(0)  # the controller's own tasks start first
            if self._registry.generation != seen:
                seen = self._registry.generation
                self.controller.follow_only(
                    Source(kind.group, kind.resource, self._keys)
                    for kind in self._registry
                    if {"list", "watch", "delete"} <= set(kind.verbs)
                )
            await asyncio.sleep(KINDS_EVERY_S)

    # -- the index

    def _keys(self, event: Event) -> Iterable[Key]:
        key, meta = event.stored.key, event.stored.body["metadata"]
        if event.type is EventType.DELETED:
            self._index(key, ())
            self._waiting.pop(event.stored.uid, None)
            uids = [ref["uid"] for ref in _references(meta)]
            waiting = [self._waiting[uid] for uid in uids if uid in self._waiting]
            return [*self._dependents.get(event.stored.uid, ()), *waiting]
        before = self._owners.get(key, ())
        owners = tuple(ref["uid"] for ref in _references(meta))
        self._index(key, owners)
        released = [self._waiting[uid] for uid in before if uid in self._waiting and uid not in owners]
        going = bool(meta.get("deletionTimestamp"))
        if going and not {ORPHAN, FOREGROUND}.isdisjoint(texts(meta.get("finalizers"))):
            self._waiting[event.stored.uid] = key
            return [key, *released]
        if owners and not going and (event.type is EventType.ADDED or owners != before):
            return [key, *released]
        return released

    def _index(self, key: Key, owners: tuple[str, ...]) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents is not None:
                dependents.discard(key)
                if not dependents:
                    del self._dependents[uid]
        if owners:
            self._owners[key] = owners
            for uid in owners:
                self._dependents.setdefault(uid, set()).add(key)

    # -- the work

    async def _reconcile(self, key: Key) -> float | None:
        kind = self._registry.resource(key.group, key.resource)
        seen = self._store.peek(key)
        if seen is not None and self._cared_for(key, seen.body):
            return None
        stored = await self._store.get(key)
        if kind is None or stored is None:
            return None
        body = stored.body
        meta = body["metadata"]
        finalizers = texts(meta.get("finalizers"))
        if meta.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                return await self._let_go(kind, key, body)
            if FOREGROUND in finalizers:
                return await self._wait_for_dependents(kind, key, body)
            return None
        references = _references(meta)
        if not references:
            return None
        gone = [ref["uid"] for ref in references if not await self._alive(key, ref)]
        if len(gone) == len(references):
            await self._delete(kind, key, meta["uid"])
        elif gone:
            await self._drop_references(kind, key, meta["uid"], gone)
        return None

    async def _alive(self, dependent: Key, reference: Body) -> bool:
        """Owners of a kind that is not known count as alive: their CRD may only be on its way."""
        kind = self._registry.kind_of(text(reference.get("apiVersion")), text(reference.get("kind")))
        if kind is None:
            return True
        namespace = dependent.namespace if kind.namespaced else ""
        owner = await self._store.get(Key(kind.group, kind.resource, namespace, text(reference.get("name"))))
        return owner is not None and owner.uid == reference["uid"]

    def _cared_for(self, key: Key, body: Body) -> bool:
        """Whether this process sees that it is not going and that all its owners are there: the usual case, for which
        the store need not be asked."""
        if body["metadata"].get("deletionTimestamp"):
            return False
        for reference in _references(body["metadata"]):
            kind = self._registry.kind_of(text(reference.get("apiVersion")), text(reference.get("kind")))
            if kind is not None:
                namespace = key.namespace if kind.namespaced else ""
                owner = self._store.peek(Key(kind.group, kind.resource, namespace, text(reference.get("name"))))
                if owner is None or owner.uid != reference["uid"]:
                    return False
        return True

    async def _delete(self, kind: Kind, key: Key, uid: str, policy: str = "Background") -> None:
        options = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
        try:
            await self._objects.delete(kind, key.namespace, key.name, self._options, options)
        except StatusError as error:
            if error.code == 404:
                return
            now = await self._store.get(key) if error.code == 409 else None
            if error.code == 409 and (now is None or now.uid != uid):
                return
            raise  # lost to other writers too often: no event would bring the key back, so the queue must

    async def _drop_references(self, kind: Kind, key: Key, uid: str, gone: Iterable[str]) -> None:
        lost = set(gone)

        def change(body: Body) -> Body | None:
            references = _references(body["metadata"])
            body["metadata"]["ownerReferences"] = [ref for ref in references if ref["uid"] not in lost]
            return body

        await self._objects.change(kind, key.namespace, key.name, change, self._options, uid=uid)

    async def _wait_for_dependents(self, kind: Kind, key: Key, owner: Body) -> float | None:
        uid = owner["metadata"]["uid"]
        blocking = False
        for dependent in list(self._dependents.get(uid, ())):
            stored = await self._store.get(dependent)
            dependent_kind = self._registry.resource(dependent.group, dependent.resource)
            if stored is None or dependent_kind is None:
                continue
            meta = stored.body["metadata"]
            references = [ref for ref in _references(meta) if ref["uid"] == uid]
            if not references:
                continue
            others = [ref for ref in _references(meta) if ref["uid"] != uid]
            if any([await self._alive(dependent, ref) for ref in others]):
                await self._drop_references(dependent_kind, dependent, stored.uid, [uid])
                continue
            if any(ref.get("blockOwnerDeletion") for ref in references):
                blocking = blocking or not self._waits_for(stored.uid, key)
            if not meta.get("deletionTimestamp"):
                await self._delete(dependent_kind, dependent, stored.uid, "Foreground")
                blocking = blocking and await self._store.get(dependent) is not None
        if blocking:
            return None  # the end of the last dependent brings the key back
        await self._remove_finalizer(kind, key, uid, FOREGROUND)
        return None

    def _waits_for(self, uid: str, owner: Key) -> bool:
        """Does the object wait for its dependents, and these for theirs, until `owner` is one of them? Such a circle
        ends nowhere, so none of it may hold another."""
        visited, queue = {uid}, [uid]
        waiting = {key: waiter for waiter, key in self._waiting.items()}
        while queue:
            one = queue.pop()
            if one not in self._waiting:
                continue
            for key in self._dependents.get(one, ()):
                if key == owner:
                    return True
                known = waiting.get(key)
                if known is not None and known not in visited:
                    visited.add(known)
                    queue.append(known)
        return False

    async def _let_go(self, kind: Kind, key: Key, owner: Body) -> float | None:
        uid = owner["metadata"]["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            dependent_kind = self._registry.resource(dependent.group, dependent.resource)
            stored = await self._store.get(dependent)
            if stored is not None and dependent_kind is not None:
                await self._drop_references(dependent_kind, dependent, stored.uid, [uid])
        await self._remove_finalizer(kind, key, uid, ORPHAN)
        return None

    async def _remove_finalizer(self, kind: Kind, key: Key, uid: str, finalizer: str) -> None:
        def change(body: Body) -> Body | None:
            left = [f for f in texts(body["metadata"].get("finalizers")) if f != finalizer]
            body["metadata"]["finalizers"] = left
            return body

        await self._objects.change(kind, key.namespace, key.name, change, self._options, uid=uid)
