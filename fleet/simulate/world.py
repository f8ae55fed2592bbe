"""The shared part of the loops of one simulated member: its objects, and its pods by owner and by node as they stand
now.

One watch of the pods feeds every loop, so that no loop searches among all pods: operators look up the pods of a job,
the scheduler hears of each change once, and the kubelet too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from fleet.simulate.zerovalues import completed
from fleet.values.ports import Body, Clock, EventType, ExpiredRevision, Ids, Store
from fleet.values.times import rfc3339

OPERATOR = User("system:simulated", ("system:masters",))
PodListener = Callable[[Body, bool], None]  # (pod, whether it is gone)


class World:
    """`pods` is the index below; `options` are those of every write that the simulation makes."""

    def __init__(self, name: str, store: Store, objects: Objects, registry: Registry, clock: Clock, ids: Ids) -> None:
        self.name = name
        self.store, self.objects, self.registry, self.clock, self.ids = store, objects, registry, clock, ids
        self.options = Options(OPERATOR, "simulated", field_validation="Ignore")
        self.pods = PodIndex(store)
        self.pod_kind = registry.need("", "pods")

    def now(self) -> str:
        return rfc3339(self.clock.now())

    async def change_pod(self, pod: Body, change: Callable[[Body], Body | None]) -> Body | None:
        """Read-modify-write of this very pod; None when it is gone."""
        meta = pod["metadata"]
        return await self.objects.change(
            self.pod_kind, meta["namespace"], meta["name"], change, self.options, uid=meta["uid"]
        )

    async def change_status(self, kind: Kind, body: Body, status: Mapping[str, Any]) -> None:
        """Replace the status when it differs. What the kind's schema requires beside it is filled in."""
        meta = body["metadata"]
        schema = (kind.schema or {}).get("properties", {}).get("status") or {}
        wanted = completed(schema, copy.deepcopy(dict(status)), self.now())

        def change(current: Body) -> Body | None:
            if current.get("status") == wanted:
                return None
            current["status"] = wanted
            return current

        await self.objects.change(
            kind, meta.get("namespace") or "", meta["name"], change, self.options, subresource="status", uid=meta["uid"]
        )


class PodIndex:
    """The pods of the member by uid, by owner and by node. A Loop, whose answers are right while `run` runs."""

    name = "pods"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods: dict[str, Body] = {}
        self._by_owner: dict[str, dict[str, Body]] = {}
        self._by_node: dict[str, dict[str, Body]] = {}
        self._listeners: list[PodListener] = []

    def put(self, pod: Body) -> None:
        """Take in a pod that was just made, before the watch shows it: its maker must not make it again."""
        self._take(pod, deletion=False)

    def listen(self, listener: PodListener) -> None:
        """Called for every change, on the event loop; must be fast."""
        self._listeners.append(listener)

    def owned_by(self, uid: str) -> list[Body]:
        return list(self._by_owner.get(uid, {}).values())

    def on_node(self, node: str) -> list[Body]:
        return list(self._by_node.get(node, {}).values())

    async def run(self) -> None:
        while True:
            watch = await self._store.watch("", "pods", since=await self.load())
            try:
                async for event in watch:
                    self._take(event.stored.body, deletion=event.type is EventType.DELETED)
            except ExpiredRevision:
                continue  # fell behind the log: list again
            finally:
                await watch.aclose()

    async def load(self) -> int:
        """Take in the pods as they are now; the revision that they have."""
        page = await self._store.list("", "pods")
        present = {stored.uid for stored in page.items}
        for uid in self._pods.keys() - present:
            self._take(self._pods[uid], deletion=True)
        for stored in page.items:
            self._take(stored.body, deletion=False)
        return page.revision

    def _take(self, pod: Body, *, deletion: bool) -> None:
        uid = pod["metadata"]["uid"]
        old = self._pods.get(uid)
        if old is not None and not deletion and _revision(old) >= _revision(pod):
            return
        self._pods.pop(uid, None)
        if old is not None:
            _put(self._by_owner, owner_of(old), uid, None)
            _put(self._by_node, node_of(old), uid, None)
        if not deletion:
            _put(self._by_owner, owner_of(pod), uid, pod)
            _put(self._by_node, node_of(pod), uid, pod)
        if not deletion:
            self._pods[uid] = pod
        for listener in self._listeners:
            listener(pod, deletion)


def _put(index: dict[str, dict[str, Body]], key: str, uid: str, pod: Body | None) -> None:
    if not key:
        return
    if pod is not None:
        index.setdefault(key, {})[uid] = pod
        return
    pods = index.get(key)
    if pods is not None:
        pods.pop(uid, None)
        if not pods:
            del index[key]


def _revision(pod: Body) -> int:
    return int(pod["metadata"]["resourceVersion"])


def owner_of(pod: Body) -> str:
    """uid of the controlling owner, or ""."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def node_of(pod: Body) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def phase_of(pod: Body) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def going(body: Body) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))


def set_condition(status: dict[str, Any], condition: dict[str, Any], now: str) -> None:
    """Put the condition in, keeping its transition time while its status stays."""
    conditions = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
            conditions[index] = {**condition, "lastTransitionTime": since or now}
            return
    conditions.append({**condition, "lastTransitionTime": now})
