"""A whole hub in one process over simulated members: its rules, its loops and their HTTP, on the clock of the wall."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from api.engine.columns import cells, columns_of
from api.engine.crd import GROUP, RESOURCE, kind_of
from api.engine.kind import Kind
from api.engine.registry import Registry
from api.loops.controller import run_all
from api.objects.definitions import definitions
from api.objects.objects import Objects
from api.objects.writing import Options, User, WriteOutcome
from api.store.memory import MemoryStore
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.manager import build_loops
from fleet.controllers.runtime.hub import ControllerConfig, Hub
from fleet.members.clusters import ClusterMembers
from fleet.simulate.cluster import NodeShape, SimulatedCluster
from fleet.simulate.kubelet import EXIT_CODE, RUN_FOR
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import Body, Key
from fleet.wellknown import QUEUE_NAMESPACE, SYSTEM_NAMESPACE, TREE_NAMESPACE
from tests.controllers.world import cluster, cluster_policy, tree

ALICE = Options(User("alice"), "kubectl")
SOON_S = 60.0
GANG_WHOLE_S = 30.0


class Whole:
    """Objects are written as a user writes them, in the namespace default."""

    def __init__(self, members: tuple[SimulatedCluster, ...], **config: Any) -> None:
        clock, ids = WallClock(), RandomIds()
        self.members = {member.name: member for member in members}
        self.store, self.registry = MemoryStore(clock), Registry(load_kinds())
        self.objects = Objects(self.store, self.registry, clock, ids, rules=rules(), fill=filled)
        self.joined = ClusterMembers()
        bounds = ControllerConfig(**{"status_interval_s": 0.1, "gang_whole_s": GANG_WHOLE_S, **config})
        self.hub = Hub(self.store, self.objects, self.registry, self.joined, clock, ids, "hub", config=bounds)

    def kind(self, name: str) -> Kind:
        return next(kind for kind in self.registry if kind.kind == name)

    async def create(self, *bodies: Body) -> list[WriteOutcome]:
        made = []
        for body in bodies:
            kind = self.kind(body["kind"])
            namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
            made.append(await self.objects.create(kind, namespace, copy.deepcopy(body), ALICE))
        return made

    async def join(self, name: str, kubeconfig: str) -> None:
        secret, data = f"member-{name}", base64.b64encode(kubeconfig.encode()).decode()
        meta = {"name": secret, "namespace": SYSTEM_NAMESPACE}
        await self.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"kubeconfig": data}})
        await self.create(cluster(name, secretRef={"name": secret, "namespace": SYSTEM_NAMESPACE}))

    async def patch(self, kind: str, name: str, patch: Body, options: Options = ALICE) -> WriteOutcome:
        return await self.objects.patch(
            self.kind(kind), "default", name, patch, "application/merge-patch+json", options
        )

    async def apply(self, body: Body) -> WriteOutcome:
        """`kubectl apply --server-side`."""
        kind, name = self.kind(body["kind"]), body["metadata"]["name"]
        config = {**body, "metadata": {**body["metadata"], "namespace": "default"}}
        return await self.objects.patch(kind, "default", name, config, "application/apply-patch+yaml", ALICE)

    async def delete(self, kind: str, name: str) -> None:
        await self.objects.delete(self.kind(kind), "default", name, ALICE)

    def see(self, kind: str, name: str) -> Body:
        """The object, {} while there is none."""
        found = self.kind(kind)
        stored = self.store.peek(Key(found.group, found.resource, "default" if found.namespaced else "", name))
        return stored.body if stored is not None else {}

    def conditions(self, kind: str, name: str) -> dict[str, str]:
        """type -> status, in their order."""
        listed = (self.see(kind, name).get("status") or {}).get("conditions") or ()
        return {entry["type"]: entry["status"] for entry in listed}

    def phase(self, kind: str, name: str) -> str:
        """Of its unit."""
        unit = self.see("QueueUnit", f"{name}-{kind.lower()}-rb-qu")
        return str((unit.get("status") or {}).get("phase", ""))

    def placed(self, kind: str, name: str) -> str:
        clusters = (self.see("ResourceBinding", f"{name}-{kind.lower()}").get("spec") or {}).get("clusters") or ()
        return str(clusters[0]["name"]) if clusters else ""

    def column(self, kind: str, name: str) -> str:
        """The second column of `kubectl get`: STATE, or STATUS of a batch Job."""
        found, body = self.kind(kind), self.see(kind, name)
        row = dict(zip((c.name for c in columns_of(found)), cells(found, body, self.hub.clock.now()), strict=True))
        return str(row.get("State", row.get("Status")))

    def pods(self) -> list[Body]:
        """Of all members."""
        return [stored.body for member in self.members.values() for stored in member.world.store.scan("", "pods")]

    def copies(self, kind: str) -> list[str]:
        """Names of the jobs of this kind in all members."""
        found = self.kind(kind)
        stores = (member.world.store for member in self.members.values())
        return [stored.key.name for store in stores for stored in store.scan(found.group, found.resource)]

    async def end_pods(self, exit_code: int = 0) -> None:
        """Let every running pod end with this exit code."""
        for member in self.members.values():
            for stored in member.world.store.scan("", "pods"):
                await member.world.change_pod(stored.body, lambda body: _ending(body, exit_code))

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = asyncio.get_running_loop().time() + SOON_S
        while not (found := condition()):
            assert asyncio.get_running_loop().time() < deadline, f"not within {SOON_S} s: {what}"
            await asyncio.sleep(0.02)
        return found


def _ending(body: Body, exit_code: int) -> Body:
    annotations = {**(body["metadata"].get("annotations") or {}), RUN_FOR: "10ms", EXIT_CODE: str(exit_code)}
    body["metadata"]["annotations"] = annotations
    return body


@asynccontextmanager
async def whole(
    *names: str, gpus: int = 4, crds: Sequence[Body] = (), max_jobs: int = 1, **config: Any
) -> AsyncIterator[Whole]:
    """A running hub whose leaf of the namespace default runs one job at a time, and a policy that queues every kind.
    `crds`: further kinds, of the hub and its members. `config`: bounds of the loops."""
    members = tuple(SimulatedCluster(name, [NodeShape(1, gpus)], pod_start_s=0.02, pod_stop_s=0.02) for name in names)
    world, stop = Whole(members, **config), asyncio.Event()
    for member in members:
        await member.start()
    for crd in crds:
        made = kind_of(crd, definitions())
        assert made is not None
        world.registry.put(made)
        await world.create(crd)
        for member in members:
            inside = member.world
            await inside.objects.create(inside.registry.need(GROUP, RESOURCE), "", copy.deepcopy(crd), inside.options)
    for name in ("default", TREE_NAMESPACE, QUEUE_NAMESPACE, SYSTEM_NAMESPACE):
        await world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for member in members:
        await world.join(member.name, member.kubeconfig)
    selectors = [
        {"apiVersion": "kubeflow.org/v1", "kind": kind.kind} for kind in world.registry if kind.group == "kubeflow.org"
    ]
    selectors.append({"apiVersion": "batch/v1", "kind": "Job"})
    await world.create(tree(max_jobs=max_jobs), cluster_policy(queue=True, resourceSelectors=selectors, failover=None))
    running = asyncio.create_task(run_all(build_loops(world.hub, None), stop))
    try:
        yield world
    finally:
        stop.set()
        await running
        await world.joined.stop()
        for member in members:
            await member.stop()
