"""One simulated member: the hub's own API face over a store in memory, with the loops that bring a cluster to life.

To an HTTP client it is a cluster with nodes, a scheduler, kubelets, job operators, garbage collection and namespaces.
The same `identity` gives the same cluster again: with its objects where it has a file for them (objectfile.py), else
emptied. `pause_serving` is how tests cut it off.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from api.access.auth import MASTERS, StaticTokens
from api.access.rbac import AllowAll
from api.engine.registry import Registry
from api.lifecycle.garbage import GarbageCollector
from api.lifecycle.namespaces import Namespaces
from api.loops.controller import Loop, run_all
from api.objects.crds import follow_crds, load_crds
from api.objects.objects import Objects
from api.objects.writing import User
from api.server.app import build_app
from api.store.memory import MemoryStore
from api.transport.serve import Server
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.simulate.batchjob import BatchJobs
from fleet.simulate.declaredkinds import DeclaredKinds
from fleet.simulate.exporter import PodMetrics
from fleet.simulate.jaxjob import JAXJobs
from fleet.simulate.kubelet import Kubelet
from fleet.simulate.logs import PodLogs
from fleet.simulate.mpijob import MPIJobs
from fleet.simulate.objectfile import ObjectFile
from fleet.simulate.paddlejob import PaddleJobs
from fleet.simulate.pytorchjob import PyTorchJobs
from fleet.simulate.scheduler import Scheduler
from fleet.simulate.shells import SHELLS, PodShells
from fleet.simulate.tfjob import TFJobs
from fleet.simulate.wall import RandomIds, WallClock
from fleet.simulate.world import World
from fleet.simulate.xgboostjob import XGBoostJobs
from fleet.values.kubeconfig.document import write
from fleet.values.ports import Body, Clock, Ids, Key
from fleet.wellknown import CLUSTER, POLICY, QUEUE, QUOTA, WORK

log = structlog.get_logger(__name__)

VERSION = "v1.36.3"
HUB_GROUPS = frozenset({CLUSTER, POLICY, QUEUE, QUOTA, WORK})  # no cluster that runs jobs serves these
IDENTIFYING = "kube-system"  # the namespace whose uid tells one cluster from the others
NAMESPACES = ("default", IDENTIFYING, "kube-public", "kube-node-lease")
MAX_EVENTS = 20_000  # of the log: a watcher further behind lists again
MAX_LOG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class NodeShape:
    """`count` equal nodes named PREFIX-0, PREFIX-1, … Quantities as Kubernetes writes them."""

    count: int = 4
    gpus: int = 8
    cpu: str = "64"
    memory: str = "256Gi"
    disk: str = "1Ti"
    pods: int = 110
    prefix: str = "node"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()

    def node(self, number: int, now: str) -> Body:
        name = f"{self.prefix}-{number}"
        room = {"cpu": self.cpu, "memory": self.memory, "ephemeral-storage": self.disk, "pods": str(self.pods)}
        if self.gpus:
            room["nvidia.com/gpu"] = str(self.gpus)
        base = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        info = {
            "kubeletVersion": VERSION,
            "kubeProxyVersion": VERSION,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "",
            "machineID": "",
            "osImage": "Simulated",
            "systemUUID": "",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**base, **self.labels}},
            "spec": {"taints": [dict(t) for t in self.taints]} if self.taints else {},
            "status": {
                "capacity": room,
                "allocatable": dict(room),
                "conditions": [ready],
                "nodeInfo": info,
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            },
        }


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of a simulated member, and the CA that its clients trust."""

    certificate: Path
    key: Path
    ca: bytes


class _OneUid:
    """Ids that give one uid."""

    def __init__(self, uid: str, ids: Ids) -> None:
        self._uid = uid
        self.suffix = ids.suffix

    def uid(self) -> str:
        return self._uid


def identity_of(seed: uuid.UUID, name: str) -> str:
    """The uid of kube-system in the member `name` of those that `seed` stands for."""
    return str(uuid.uuid5(seed, name))


class _CustomKinds:
    """A Loop: kinds come and go with CRD objects, here as in any cluster."""

    name = "custom kinds"

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        await follow_crds(self._world.store, self._world.registry)


class SimulatedCluster:
    """`start`, then `kubeconfig` says how to reach it. `world` is for tests that look inside."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[NodeShape] = (NodeShape(),),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        ids: Ids | None = None,
        pod_start_s: float = 0.1,
        pod_stop_s: float = 0.05,
        identity: str = "",
        tls: Tls | None = None,
        token: str = "",
        file: Path | None = None,
    ) -> None:
        """`identity`: the uid of its kube-system namespace. `tls` None: plain HTTP. `file`: keeps its objects over
        restarts."""
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"a simulated member listens on loopback only, not on {host}")
        clock, ids = clock or WallClock(), ids or RandomIds()
        self.name = name
        self.identity = identity or ids.uid()
        self._tls = tls
        self._nodes, self._host, self._port = tuple(nodes), host, port
        store = MemoryStore(clock, max_events=MAX_EVENTS, max_log_bytes=MAX_LOG_BYTES)
        registry = Registry(kind for kind in load_kinds() if kind.group not in HUB_GROUPS)
        objects = Objects(store, registry, clock, ids, graceful_pods=True, fill=filled)
        self.world = World(name, store, objects, registry, clock, ids)
        self.token = token or secrets.token_urlsafe(24)
        self._app = build_app(
            objects,
            store,
            registry,
            clock=clock,
            authorizer=AllowAll(),
            version=VERSION,
            authenticator=StaticTokens({self.token: User("admin", (MASTERS,))}),
            extra_routes={
                ("", "pods", "log"): PodLogs(self.world),
                ("", "pods", "proxy"): PodMetrics(self.world),
                **dict.fromkeys(SHELLS, PodShells(self.world)),
            },
        )
        self._kept = None if file is None else ObjectFile(store, file, [asdict(shape) for shape in self._nodes])
        self._kubelet = (pod_start_s, pod_stop_s)
        self._server: Server | None = None
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def kubeconfig(self) -> str:
        ca = self._tls.ca if self._tls is not None else None
        return write(self.url, name=self.name, user="admin", ca=ca, token=self.token)

    async def start(self) -> None:
        """Returns when requests are answered and the nodes are there."""
        world = self.world
        if self._kept is not None:
            await asyncio.to_thread(self._kept.restore)
            await load_crds(world.store, world.registry)  # else objects of these kinds would seem to be gone
        await self._app.start()
        for name in NAMESPACES:
            body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self._create("namespaces", body, self.identity if name == IDENTIFYING else "")
        for shape in self._nodes:
            for number in range(shape.count):
                await self._create("nodes", shape.node(number, world.now()))
        await self.resume_serving()
        loops: list[Loop] = [
            Scheduler(world),
            Kubelet(world, start_s=self._kubelet[0], stop_s=self._kubelet[1]),
            PyTorchJobs(world),
            TFJobs(world),
            MPIJobs(world),
            JAXJobs(world),
            PaddleJobs(world),
            XGBoostJobs(world),
            BatchJobs(world),
            DeclaredKinds(world),
            GarbageCollector(world.objects, world.options, workers=1),
            Namespaces(world.objects, world.options),
            world.pods,
            _CustomKinds(world),
            *([self._kept] if self._kept is not None else ()),
        ]
        if self._kept is not None:
            await world.pods.load()  # the loops are told of what runs, and no operator makes it anew
        self._stop.clear()
        self._running = asyncio.create_task(run_all(loops, self._stop), name=f"simulated:{self.name}")

    async def _create(self, resource: str, body: Body, uid: str = "") -> None:
        world = self.world
        objects = world.objects
        if uid:
            objects = Objects(world.store, world.registry, world.clock, _OneUid(uid, world.ids), fill=filled)
        if world.store.peek(Key("", resource, "", body["metadata"]["name"])) is None:
            await objects.create(world.registry.need("", resource), "", body, world.options, with_status=True)

    async def wait(self) -> None:
        """Until it is stopped; raises what ended it otherwise."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def stop(self) -> None:
        await self.pause_serving()
        self._stop.set()
        if self._running is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
            self._running = None
            if self._kept is not None:
                await asyncio.to_thread(self._kept.save)
        await self._app.stop()

    async def pause_serving(self) -> None:
        """Close the listening port and every connection; the cluster inside goes on, as behind a broken network."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def resume_serving(self) -> None:
        """Listen again, on the same port."""
        if self._server is None:
            await self._app.start()
            self._server = Server(
                self._app,
                host=self._host,
                port=self._port,
                close_streams=self._app.close_streams,
                metrics=self._app.metrics.edge,
                cert=self._tls.certificate if self._tls else None,
                key=self._tls.key if self._tls else None,
            )
            self._port = self._server.port
            await self._server.start()
