"""A hub with nothing but the loop that joins members."""

from __future__ import annotations

import base64
from typing import Any

from api.engine.registry import Registry
from api.objects.objects import Objects
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.bindings.conditions import condition
from fleet.controllers.cluster.clusters import ClustersLoop
from fleet.controllers.runtime.hub import Hub
from fleet.members.clusters import ClusterMembers
from fleet.members.kubeconfig import Dial
from fleet.members.traits import MemberLimits
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import Body, Key
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE


class World:
    """See the module. `hub_id` marks what is its own in members."""

    def __init__(self, hub_id: str, limits: MemberLimits, dial: Dial | None = None) -> None:
        clock, ids = WallClock(), RandomIds()
        store, registry = MemoryStore(clock), Registry(load_kinds())
        self.members = ClusterMembers(limits=limits, dial=dial)
        objects = Objects(store, registry, clock, ids, fill=filled)
        self.hub = Hub(store, objects, registry, self.members, clock, ids, hub_id)
        self.loop = ClustersLoop(self.hub, self.members)

    async def create(self, group: str, resource: str, namespace: str, body: Body) -> None:
        assert await self.hub.create(group, resource, namespace, body)

    async def join(self, kubeconfig: str, *, name: str = "cfa", **spec: Any) -> None:
        encoded = base64.b64encode(kubeconfig.encode()).decode()
        meta = {"name": f"member-{name}", "namespace": SYSTEM_NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"kubeconfig": encoded}}
        await self.create("", "secrets", SYSTEM_NAMESPACE, secret)
        await self.cluster(name=name, **spec)

    async def cluster(self, *, name: str = "cfa", **spec: Any) -> None:
        meta = {"name": name, "labels": {"team": "ml", "fleet.io/price": "7"}}
        body = {"apiVersion": f"{CLUSTER}/v1alpha1", "kind": "Cluster", "metadata": meta, "spec": spec}
        await self.create(CLUSTER, "clusters", "", body)

    async def lead_to(self, kubeconfig: str) -> None:
        """Other content of the Secret."""

        def change(body: Body) -> bool:
            body["data"]["kubeconfig"] = base64.b64encode(kubeconfig.encode()).decode()
            return True

        assert await self.hub.edit(Key("", "secrets", SYSTEM_NAMESPACE, "member-cfa"), change)

    def stored(self, name: str = "cfa") -> Body | None:
        return self.hub.peek(CLUSTER, "clusters", "", name)

    def status(self) -> Body:
        return (self.stored() or {}).get("status") or {}

    def ready(self, name: str = "cfa") -> tuple[str, str]:
        found = condition(self.stored(name) or {}, "Ready")
        return (found["status"], found["reason"]) if found else ("", "")

    def message(self, name: str = "cfa") -> str:
        return str((condition(self.stored(name) or {}, "Ready") or {}).get("message"))
