"""Kinds whose objects nobody stores: the hub makes them when somebody asks, and they are read alone.

ComponentStatuses tell of the parts of a control plane by the names that clients know. APIServices tell of each group
and version who serves it: here always the hub itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast
from uuid import NAMESPACE_DNS, uuid5

import orjson

from api.engine.kind import Kind
from api.engine.status import StatusError
from api.objects.versions import ObjectSource
from api.server.discovery import Discovery
from api.server.health import Check, of_store
from fleet.values.ports import Body, Clock, Key, Page, Selector, Store, StoredObject, StoreUnavailable
from fleet.values.times import rfc3339

_COMPONENTS, _SERVICES = ("", "componentstatuses"), ("apiregistration.k8s.io", "apiservices")
_READ_ONLY = {
    _COMPONENTS: "componentstatuses are made by the hub and cannot be written",
    _SERVICES: "apiservices are made by the hub and cannot be written: it serves every group itself, and has no"
    " aggregated API servers",
}
_CUSTOM_PRIORITY, _FIRST_PRIORITY, _STEP = 1000, 18000, 100  # of groups: the first is what clients prefer


def computed_kinds(
    store: Store, clock: Clock, discovery: Discovery, parts: Mapping[str, Check]
) -> dict[tuple[str, str], ObjectSource]:
    """By group and resource: what stands in for the store when these kinds are read."""
    began = rfc3339(clock.now())

    async def components() -> list[Body]:
        wrong = {name: check() for name, check in parts.items()} | {"etcd-0": await of_store(store)}
        return [_component(name, said) for name, said in wrong.items()]

    async def services() -> list[Body]:
        return [_service(group, version, place, began) for place, (group, version) in enumerate(discovery.served())]

    made = {_COMPONENTS: components, _SERVICES: services}
    return {name: cast(ObjectSource, _ComputedStore(store, *name, make)) for name, make in made.items()}


def write_refusal(kind: Kind) -> StatusError | None:
    """The refusal of a write to such a kind, in plain words; None for another kind."""
    said = _READ_ONLY.get((kind.group, kind.resource))
    return None if said is None else StatusError(405, "MethodNotAllowed", said)


def _component(name: str, wrong: str) -> Body:
    healthy = {"type": "Healthy", "status": "False" if wrong else "True", "message": wrong or "ok"}
    return {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [healthy]}


def _service(group: str, version: str, place: int, since: str) -> Body:
    name = f"{version}.{group}"
    builtin = "." not in group or group.endswith(".k8s.io")
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": since,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    spec = {
        "version": version,
        "versionPriority": 15 if builtin else 100,
        "groupPriorityMinimum": _FIRST_PRIORITY - _STEP * place if builtin else _CUSTOM_PRIORITY,
    }
    return {
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {"name": name, "uid": str(uuid5(NAMESPACE_DNS, name)), "creationTimestamp": since},
        "spec": {**({"group": group} if group else {}), **spec},
        "status": {"conditions": [condition]},
    }


class _ComputedStore:
    """Reads as a store does. All objects of the kind are made anew for each request: they are few."""

    def __init__(self, store: Store, group: str, resource: str, make: Callable[[], Awaitable[list[Body]]]) -> None:
        self._store, self._group, self._resource, self._make = store, group, resource, make

    async def revision(self, *, alone: bool = False) -> int:
        try:
            return await self._store.revision(alone=alone)
        except StoreUnavailable:  # which is what a ComponentStatus is asked about
            return 0

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        page = await self.list(key.group, key.resource, alone=alone)
        return next((stored for stored in page.items if stored.key == key), None)

    async def list(
        self,
        group: str,
        resource: str,
        *,
        namespace: str | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
        start: tuple[str, str] | None = None,
        at: int | None = None,
        fresh: bool = True,
        alone: bool = False,
    ) -> Page:
        """The whole, on one page."""
        bodies = [body for body in await self._make() if selector is None or selector(body)]
        return Page(tuple(map(self._stored, bodies)), await self.revision(alone=alone), None, 0)

    def _stored(self, body: Body) -> StoredObject:
        metadata = body["metadata"]
        key = Key(self._group, self._resource, "", metadata["name"])
        return StoredObject(key, metadata.get("uid", ""), 0, orjson.dumps(body), body)
