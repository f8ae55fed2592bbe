"""A hub in memory with fake members: what every story starts from."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import orjson

from api.engine.registry import Registry
from api.engine.status import StatusError
from api.loops.controller import Loop, run_all
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.bindings.heartbeat import RENEW_S
from fleet.controllers.decide.loop import DecideLoop
from fleet.controllers.decide.record import RECORD, unpack
from fleet.controllers.manager import build_loops
from fleet.controllers.runtime.heartbeat import Heartbeat
from fleet.controllers.runtime.hub import ControllerConfig, Hub
from fleet.core.model.amounts import Amounts
from fleet.core.notation.codec import decode_plan, differences, replay
from fleet.values.ports import Body, Key, StoreUnavailable
from fleet.wellknown import CLUSTER, KUBEFLOW, POLICY, QUEUE, QUEUE_NAMESPACE, QUOTA, TREE_NAMESPACE, WORK
from tests.controllers.fakemember import FakeMember
from tests.controllers.fakes import FakeMembers
from tests.controllers.fastloop import LoopClock, eventually

ALICE = Options(user=User("alice"), manager="kubectl")
GIB = 2**30


class CountingIds:
    def __init__(self) -> None:
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012d}"

    def suffix(self) -> str:
        self._count += 1
        letters, rest, text = "bcdfghjklmnpqrstvwxz2456789", self._count, ""
        for _ in range(5):
            rest, digit = divmod(rest, len(letters))
            text += letters[digit]
        return text


def nodes(count: int, gpus: int = 8, prefix: str = "n") -> dict[str, Amounts]:
    room = Amounts.of({"cpu": 96_000, "memory": 512 * GIB, "nvidia.com/gpu": gpus, "pods": 110})
    return {f"{prefix}{number}": room for number in range(count)}


def member(name: str, count: int = 2, gpus: int = 8, **how: Any) -> FakeMember:
    return FakeMember(name, nodes(count, gpus), **how)


def pytorchjob(name: str, *, workers: int = 2, gpus: int = 1, namespace: str = "default", **pod: Any) -> Body:
    container = {
        "name": "pytorch",
        "image": "registry.example/train:1",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"spec": {"containers": [container], **pod}}
    replicas = {"Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": copy.deepcopy(template)}}
    if workers:
        replicas["Worker"] = {"replicas": workers, "restartPolicy": "OnFailure", "template": copy.deepcopy(template)}
    return {
        "apiVersion": f"{KUBEFLOW}/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def policy(name: str = "example-policy", *, queue: bool = False, namespace: str = "default", **spec: Any) -> Body:
    """The walk-through's policy; `spec` replaces or adds fields of its spec."""
    body: Body = {
        "apiVersion": f"{POLICY}/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "propagateDeps": True,
            "failover": {"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Immediately"}},
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
            "resourceSelectors": [{"apiVersion": f"{KUBEFLOW}/v1", "kind": "PyTorchJob"}],
        },
    }
    if queue:
        body["spec"]["suspension"] = {"scheduling": True}
    body["spec"].update(spec)
    return {**body, "spec": {k: v for k, v in body["spec"].items() if v is not None}}


def passing(body: Body, *leaves: str) -> Body:
    """The policy as the API stores it for a user who has the verb `bypass` on the queues of these leaves, or of all."""
    said = orjson.dumps({"by": "admin", "leaves": leaves or ("*",)}).decode()
    return {**body, "metadata": {**body["metadata"], "annotations": {"fleet.io/bypasses-queue": said}}}


def cluster_policy(name: str = "everywhere", *, queue: bool = False, **spec: Any) -> Body:
    """The same for every namespace, as administrators write it."""
    body = policy(name, queue=queue, **spec)
    return {**body, "kind": "ClusterPropagationPolicy", "metadata": {"name": name}}


def tree(max_jobs: int = 1, namespaces: Sequence[str] = ("default",), name: str = "child-2") -> Body:
    root = {"cpu": 999900, "memory": "400000Gi", "kube-queue/max-jobs": 10000000000, "nvidia.com/gpu": 100000}
    leaf = {"kube-queue/max-jobs": max_jobs, "cpu": 10000, "nvidia.com/gpu": 10000, "memory": "10000Gi"}
    children = [{"name": name, "max": leaf, "namespaces": list(namespaces)}]
    return {
        "apiVersion": f"{QUOTA}/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": TREE_NAMESPACE},
        "spec": {"root": {"name": "root", "max": root, "min": root, "children": children}},
    }


class World:
    """One hub. Objects are read and written as a user does; `start` and `stop` run the controllers."""

    def __init__(self, *members: FakeMember, config: ControllerConfig | None = None) -> None:
        self.clock, self.ids = LoopClock(), CountingIds()
        self.store = MemoryStore(self.clock)
        self.registry = Registry(load_kinds())
        self.objects = Objects(self.store, self.registry, self.clock, self.ids, fill=filled)
        self.members = FakeMembers(*members)
        self.hub = Hub(
            self.store,
            self.objects,
            self.registry,
            self.members,
            self.clock,
            self.ids,
            "hub",
            config=config or ControllerConfig(),
        )
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []
        self.loops: list[Loop] = []

    # -- the controllers

    def start(self) -> None:
        self._stop = asyncio.Event()
        self.loops = build_loops(self.hub, None)
        self._running = asyncio.get_running_loop().create_task(run_all(self.loops, self._stop, self.hub.metrics.ended))

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[Heartbeat]:
        """Their heartbeat, which ends with them; it has beaten once."""
        decide = next(loop for loop in self.loops if isinstance(loop, DecideLoop))
        heartbeat = Heartbeat(self.hub, "host-1", decide.look_again)

        async def beats() -> None:
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await heartbeat.beat(self.store.commit)
                await self.clock.sleep(RENEW_S)

        await heartbeat.beat(self.store.commit)
        running = [asyncio.create_task(heartbeat.run()), asyncio.create_task(beats())]
        self._beside += running
        try:
            yield heartbeat
        finally:
            for task in running:
                task.cancel()

    async def stop(self) -> None:
        self._stop.set()
        if self._running is not None:
            await self._running

    async def kill(self) -> None:
        """End the controllers wherever they are."""
        for task in self._beside:
            task.cancel()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    async def replays(self) -> None:
        """Every decision that was recorded is the plan that its snapshot leads to."""
        for row in await self.store.read_history(RECORD):
            record = unpack(row)
            different = differences(replay(record), decode_plan(record["plan"]))
            assert different == [], f"decision {row['id']} is not the plan that its snapshot leads to"

    # -- what a user does

    async def apply(self, *bodies: Body) -> None:
        """Create each object, or replace its spec."""
        for body in bodies:
            kind = self.registry.kind_of(body["apiVersion"], body["kind"])
            assert kind is not None, body["kind"]
            namespace = body["metadata"].get("namespace", "")
            try:
                await self.objects.create(kind, namespace, copy.deepcopy(body), ALICE)
            except StatusError as error:
                if error.code != 409:
                    raise
                current = copy.deepcopy(await self.objects.get(kind, namespace, body["metadata"]["name"]))
                for field, value in body.items():
                    if field != "metadata":
                        current[field] = copy.deepcopy(value)
                current["metadata"].update(
                    {k: v for k, v in body["metadata"].items() if k in ("labels", "annotations")}
                )
                await self.objects.update(kind, namespace, body["metadata"]["name"], current, ALICE)

    async def edit(self, kind: str, name: str, change: Callable[[Body], Any], namespace: str = "default") -> None:
        """Read, change in place, write: `kubectl edit`."""
        found = next(k for k in self.registry if k.kind == kind)
        where = namespace if found.namespaced else ""
        body = copy.deepcopy(await self.objects.get(found, where, name))
        change(body)
        await self.objects.update(found, where, name, body, ALICE)

    async def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        found = next(k for k in self.registry if k.kind == kind)
        await self.objects.delete(found, namespace if found.namespaced else "", name, ALICE)

    def see(self, kind: str, name: str, namespace: str = "default") -> Body | None:
        found = next(k for k in self.registry if k.kind == kind)
        stored = self.store.peek(Key(found.group, found.resource, namespace if found.namespaced else "", name))
        return stored.body if stored is not None else None

    def all(self, kind: str) -> list[Body]:
        found = next(k for k in self.registry if k.kind == kind)
        return [stored.body for stored in self.store.scan(found.group, found.resource)]

    # -- shorthands for what stories look at

    def binding(self, job: str, kind: str = "pytorchjob", namespace: str = "default") -> Body | None:
        return self.see("ResourceBinding", f"{job}-{kind}", namespace)

    def unit(self, job: str, kind: str = "pytorchjob", namespace: str = "default") -> Body | None:
        return self.see("QueueUnit", f"{job}-{kind}-rb-qu", namespace)

    def phase(self, job: str) -> str:
        return str((((self.unit(job) or {}).get("status")) or {}).get("phase", ""))

    def message(self, job: str) -> str:
        return str((((self.unit(job) or {}).get("status")) or {}).get("message", ""))

    def placed(self, job: str) -> str:
        clusters = ((self.binding(job) or {}).get("spec") or {}).get("clusters") or []
        return str(clusters[0]["name"]) if clusters else ""

    def attempt(self, job: str) -> int:
        annotations = ((self.binding(job) or {}).get("metadata") or {}).get("annotations") or {}
        return int(annotations.get("fleet.io/attempt", "0"))

    def state(self, job: str, kind: str = "PyTorchJob") -> str:
        """STATE as `kubectl get` prints it."""
        conditions = (((self.see(kind, job) or {}).get("status")) or {}).get("conditions") or []
        return str(conditions[-1]["type"]) if conditions else ""

    def condition(self, body: Body | None, type_: str) -> Body:
        conditions = ((body or {}).get("status") or {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == type_), {})

    def events(self, job: str, reason: str = "") -> list[Body]:
        return [
            e for e in self.all("Event") if e["involvedObject"]["name"] == job and (not reason or e["reason"] == reason)
        ]

    def queues(self) -> dict[str, str]:
        """Names of Queues by full quota path."""
        return {
            s.body["metadata"]["annotations"]["kube-queue/quota-fullname"]: s.key.name
            for s in self.store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE)
        }

    async def running(self, job: str) -> str:
        """Wait until the hub shows the job running; returns its member."""
        await eventually(
            lambda: self.state(job) == "Running", what=f"{job} runs: {self.state(job)} {self.message(job)}"
        )
        return self.placed(job)

    def nothing_left(self) -> bool:
        """Neither bindings nor units on the hub, nor anything of ours in any member."""
        ours = [body for name in self.members.names() for body in self.members.owned(name)]
        pods = [pod for m in self.members.by_name.values() for pod in m.pods.values()]
        return not (self.store.scan(WORK, "resourcebindings") or self.store.scan(QUEUE, "queueunits") or ours or pods)


def cluster(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Body:
    return {
        "apiVersion": f"{CLUSTER}/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"syncMode": "Push", **spec},
    }


def crd(group: str, version: str, kind: str, plural: str) -> Body:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


@contextlib.asynccontextmanager
async def hub(
    *members: FakeMember, config: ControllerConfig | None = None, start: bool = True, replays: bool = True
) -> AsyncIterator[World]:
    """A world with its namespaces and Clusters, and the controllers running. In the end, every decision that it
    recorded is decided again, to the same plan; not where `replays` is false, or no controllers made it."""
    world = World(*members, config=config)
    for name in ("default", "team-b", TREE_NAMESPACE, QUEUE_NAMESPACE, "fleet-system"):
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for one in members:
        await world.apply(cluster(one.name))
    if start:
        world.start()
    try:
        yield world
        if start and replays:
            await world.replays()
    finally:
        await world.kill()
        for task in list(world.members.tasks):
            task.cancel()
