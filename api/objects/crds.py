"""Keeps a process's registry of kinds in step with the CRD objects in the store.

Every process that reads or writes objects follows the CRDs by itself. Every follower may write the things that must be
*written* (a CRD's status, the objects that go with a deleted CRD). Each write is a function of the stored state and
does nothing when it has been done, so followers cannot disagree and none of them is special.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog

from api.engine.crd import FINALIZER, GROUP, RESOURCE, crd_of, dated, kind_of, status_of, validate
from api.engine.kind import Kind
from api.engine.registry import Registry
from api.objects.definitions import definitions
from fleet.values.ports import (
    EXISTS,
    Body,
    Change,
    CommitResult,
    Delete,
    Expect,
    ExpiredRevision,
    Key,
    StaleEpoch,
    Store,
    StoredObject,
    StoreUnavailable,
)
from fleet.values.untyped import mapping, rows
from fleet.values.wellknown import HANDLING_FAILED

log = structlog.get_logger(__name__)

RETRY_S = 1.0
CLEAN_UP_EVERY_S = 0.5
DELETE_BATCH = 100


async def follow_crds(store: Store, registry: Registry, loaded: asyncio.Event | None = None) -> None:
    """Run until cancelled. `loaded` is set once every CRD that is stored has been taken in."""
    follower = _Follower(store, registry)
    while True:
        try:
            await follower.follow(loaded)
        except ExpiredRevision:
            log.info("the log no longer reaches back, listing the CRDs again")
        except StoreUnavailable as error:
            log.warning("store unavailable", error=str(error))
            await asyncio.sleep(RETRY_S)
        except StaleEpoch:
            raise
        except Exception:  # a process that no longer learns of kinds would refuse objects of those that come
            log.exception("following the CRDs failed, listing them again")
            await asyncio.sleep(RETRY_S)


async def load_crds(store: Store, registry: Registry) -> int:
    """Bring the registry in step once; the revision up to which it is."""
    return await _Follower(store, registry).load()


class _Follower:
    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        # The kinds that came with Fleet: their CRDs, while no user changes them, say nothing new.
        self._own: Mapping[str, Kind] = {k.group_resource: k for k in registry if not k.builtin}
        self._own_specs = {name: crd_of(kind)["spec"] for name, kind in self._own.items()}
        self._terminating: dict[str, StoredObject] = {}
        self._failed: dict[str, int] = {}  # name -> revision of a CRD that could not be handled
        self._specs: dict[str, Body] = {}

    async def load(self) -> int:
        page = await self._store.list(GROUP, RESOURCE, fresh=True)
        names = {stored.key.name for stored in page.items}
        for gone in self._specs.keys() - names:
            self._forget(gone)
        for stored in page.items:
            await self._try(self._take, stored)
        return page.revision

    async def follow(self, loaded: asyncio.Event | None) -> None:
        watch = await self._store.watch(GROUP, RESOURCE, since=await self.load())
        if loaded is not None:
            loaded.set()
        try:
            while True:
                event = await watch.next(timeout=CLEAN_UP_EVERY_S if self._terminating else 60.0)
                if event is not None and event.type == "DELETED":
                    self._forget(event.stored.key.name)
                elif event is not None:
                    await self._try(self._take, event.stored)
                for stored in list(self._terminating.values()):
                    await self._try(self._clean_up, stored)
        finally:
            await watch.aclose()

    async def _try(self, act: Callable[[StoredObject], Awaitable[None]], crd: StoredObject) -> None:
        """A CRD that cannot be handled is reported, and costs the other kinds nothing."""
        try:
            await act(crd)
        except (StoreUnavailable, StaleEpoch, ExpiredRevision):
            raise
        except Exception as error:
            if crd.revision == self._failed.get(crd.key.name):
                return
            trace = None if isinstance(error, ValueError) else error  # a refusal is no bug
            log.warning("a CRD cannot be handled", name=crd.key.name, error=repr(error)[:300], exc_info=trace)
            committed = await self._store.commit([Change(crd.key, partial(_say_failed, error=error), EXISTS)])
            newest = committed.stored[-1].revision if isinstance(committed, CommitResult) else crd.revision
            self._failed[crd.key.name] = newest

    def _forget(self, name: str) -> None:
        self._terminating.pop(name, None)
        self._failed.pop(name, None)
        spec = self._specs.pop(name, None)
        if spec is not None:
            self._registry.drop(spec["group"], spec["names"]["plural"])

    async def _take(self, crd: StoredObject) -> None:
        body = crd.body
        name, spec = body["metadata"]["name"], body.get("spec")
        new = spec is None or spec != self._specs.get(name)
        flaws = validate(body, stored=True) if new else []
        if flaws:  # written around admission, or by an older version: leave what is known alone
            raise ValueError(f"{flaws[0].field}: {flaws[0].message}"[:300])
        spec = body["spec"]
        conflict = self._conflict(spec)
        old_kind = self._registry.resource(spec["group"], spec["names"]["plural"])
        kind = self._kind(body, old_kind) if new and not conflict else None
        if body["metadata"].get("deletionTimestamp"):
            self._terminating[name] = crd
        # A client that finds the kind may change the CRD at once: nothing of the hub's is to come in between.
        await self._write_status(body, conflict)
        if conflict:
            return
        self._specs[name] = spec
        if new:
            # What others write meanwhile, under the kind that this one replaces, is older than the new one, too.
            since = crd.revision if old_kind is None else await self._store.revision()
            self._put(spec, kind if kind is None or kind is self._own.get(name) else dated(kind, since), old_kind)

    def _kind(self, body: Body, known: Kind | None) -> Kind | None:
        own = body["spec"] == self._own_specs.get(body["metadata"]["name"])
        return self._own[body["metadata"]["name"]] if own else kind_of(body, definitions(), known)

    def _put(self, spec: Body, kind: Kind | None, known: Kind | None) -> None:
        if kind is None:
            self._registry.drop(spec["group"], spec["names"]["plural"])
        elif kind is not known:
            self._registry.put(kind)

    def _conflict(self, spec: Body) -> str:
        """Why the names cannot be used: another resource of the group has the kind, or it is a built-in one."""
        plural, kind = spec["names"]["plural"], spec["names"]["kind"]
        for known in (self._registry.resource(spec["group"], plural), self._registry.kind(spec["group"], kind)):
            if known is not None and known.group == spec["group"] and (known.builtin or known.resource != plural):
                return f'"{kind}" is already in use'
        return ""

    async def _write_status(self, body: Body, conflict: str) -> None:
        if body.get("status") == status_of(body, conflict):
            return

        def change(newest: Body) -> Body | None:
            status = status_of(newest, conflict)
            if newest.get("status") == status:
                return None
            newest["status"] = status
            return newest

        await self._commit(Change(_key(body), change, Expect(uid=body["metadata"]["uid"])))

    async def _clean_up(self, stored_crd: StoredObject) -> None:
        """Delete what is left of the kind; when nothing is, let the CRD go."""
        crd = stored_crd.body
        spec = crd["spec"]
        group, plural, since = spec["group"], spec["names"]["plural"], crd["metadata"]["deletionTimestamp"]
        page = await self._store.list(group, plural, limit=DELETE_BATCH, fresh=True)
        for stored in page.items:
            if not stored.body["metadata"].get("finalizers"):
                await self._commit(Delete(stored.key, Expect(revision=stored.revision)))
            elif not stored.body["metadata"].get("deletionTimestamp"):
                await self._commit(Change(stored.key, lambda body: _deleted(body, since), EXISTS))
        if page.items or FINALIZER not in crd["metadata"].get("finalizers", ()):
            return
        others = [f for f in crd["metadata"]["finalizers"] if f != FINALIZER]
        if not others:
            await self._commit(Delete(_key(crd), Expect(uid=crd["metadata"]["uid"])))
            return

        def release(body: Body) -> Body | None:
            if FINALIZER not in body["metadata"].get("finalizers", ()):
                return None
            body["metadata"]["finalizers"] = [f for f in body["metadata"]["finalizers"] if f != FINALIZER]
            return body

        await self._commit(Change(_key(crd), release, Expect(uid=crd["metadata"]["uid"])))
        self._terminating.pop(crd["metadata"]["name"], None)

    async def _commit(self, write: Change | Delete) -> None:
        """A write that another follower may have made already: a Conflict is no matter."""
        try:
            await self._store.commit([write])
        except StaleEpoch:
            raise
        except StoreUnavailable:
            await asyncio.sleep(RETRY_S)


def _say_failed(crd: Body, error: Exception) -> Body | None:
    """Its status says so, until a status is written again that can be made of it."""
    reason = f"kinds:{type(error).__name__}"
    said = {"type": HANDLING_FAILED, "status": "True", "reason": reason, "message": "the hub cannot read this CRD"}
    status = mapping(crd.get("status"))
    others = [entry for entry in rows(status.get("conditions")) if entry.get("type") != HANDLING_FAILED]
    if len(others) < len(rows(status.get("conditions"))):
        return None
    return {**crd, "status": {**status, "conditions": [*others, said]}}


def _key(crd: Body) -> Key:
    return Key(GROUP, RESOURCE, "", crd["metadata"]["name"])


def _deleted(body: Body, since: str) -> Body | None:
    if body["metadata"].get("deletionTimestamp"):
        return None
    body["metadata"]["deletionTimestamp"] = since
    body["metadata"]["deletionGracePeriodSeconds"] = 0
    return body
