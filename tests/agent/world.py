"""A hub on one memory store with one or more API processes, which agents connect with and members are reached through.

Every part is a real one: TLS, WebSockets, tokens, Leases. The members are simulated ones.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from api.access.auth import AnyOf, StaticTokens
from api.access.rbac import Rbac
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.server.app import Api
from api.store.memory import MemoryStore
from api.transport.serve import Server, bind
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.admission.seed import seed
from fleet.agent.dialer import Dialer
from fleet.agent.lease import TunnelLease, key_of, read
from fleet.agent.mux import MuxLimits, Pipe
from fleet.agent.pipe import connect, session
from fleet.agent.serving import Agent, Backoff, path_of
from fleet.hub.face import hub_app
from fleet.members.connection import Connection
from fleet.members.kubeconfig import read_kubeconfig
from fleet.relays.peers import DIGEST, AgentTokens, PeerTokens, digest
from fleet.relays.tunnels import Tunnels
from fleet.simulate.cluster import SimulatedCluster, Tls
from fleet.simulate.wall import RandomIds, WallClock
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE
from tests.api.conftest import self_signed

ADMIN = User("admin", ("system:masters",))
# The silence that ends a connection is longer than a busy machine keeps a healthy process from its work.
QUICK = MuxLimits(ping_s=0.2, silent_s=4.0)
AGAIN = Backoff(first_s=0.05, most_s=0.3, ran_well_s=1.0, replaced_s=30.0)
KEY = b"the key that all processes share"


class Process:
    """One API process."""

    def __init__(self, hub: AgentHub, number: int, port: int = 0) -> None:
        listener = bind("127.0.0.1", port)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.tunnels = Tunnels(
            hub.objects, hub.store, hub.clock, identity=f"process-{number}", address=address, limits=QUICK
        )
        self.dialer = hub.dialer(self.tunnels)
        users = StaticTokens({"admin": ADMIN, "reader": User("reader", ("system:authenticated",))})
        self.app: Api = hub_app(
            hub.objects,
            hub.store,
            hub.registry,
            clock=hub.clock,
            authorizer=Rbac(hub.store),
            authenticator=AnyOf(users, AgentTokens(hub.store), PeerTokens(KEY, hub.clock)),
            extra_routes=self.tunnels.routes(),
            dial=self.dialer.dial,
            recheck_every_s=0.3,
        )
        self.app.metrics.agents.set_function(lambda: len(self.tunnels))
        self.server = Server(self.app, listener=listener, cert=hub.cert, key=hub.key)

    async def start(self) -> None:
        await self.app.start()
        await self.server.start()

    async def stop(self) -> None:
        self.app.close_streams()
        await self.server.stop()
        await self.app.stop()
        await self.dialer.aclose()


class AgentHub:
    def __init__(self, folder: Path) -> None:
        self.cert, self.key = self_signed(folder)
        self.tls = ssl.create_default_context(cafile=str(self.cert))
        self.clock = WallClock()
        self.store, self.registry = MemoryStore(self.clock), Registry(load_kinds())
        self.objects = Objects(self.store, self.registry, self.clock, RandomIds(), rules=rules(), fill=filled)
        self.processes: list[Process] = []
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def process(self, port: int = 0) -> Process:
        """One more, started."""
        process = Process(self, len(self.processes) + 1, port)
        self.processes.append(process)
        await process.start()
        return process

    def dialer(self, own: Tunnels | None = None) -> Dialer:
        """Of any process; that of the controllers has no `own`."""
        tokens, clients = PeerTokens(KEY, self.clock), list[aiohttp.ClientSession]()

        def holding(name: str) -> TunnelLease | None:
            stored = self.store.peek(key_of(name))
            return read(stored.body if stored is not None else None)

        async def reach(address: str, name: str) -> Pipe:
            if not clients:
                clients.append(session())
            return await connect(clients[0], f"https://{address}{path_of(name, 'dial')}", tokens.issue(), self.tls)

        async def close() -> None:
            for client in clients:
                await client.close()

        return Dialer(holding, reach, own.own if own is not None else lambda name: None, close)

    async def put(self, resource: str, body: dict[str, Any], group: str = "", namespace: str = "") -> None:
        kind = self.registry.need(group, resource)
        await self.objects.create(kind, namespace, body, Options(ADMIN, "test"))

    async def join(self, name: str, mode: str = "Pull") -> str:
        """A Cluster and the Secret of its agent; the agent's token."""
        token = f"fleet-agent.{name}.secret-of-{name}"
        metadata = {"name": f"agent-{name}", "namespace": SYSTEM_NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {DIGEST: digest(token)}}
        await self.put("secrets", secret, namespace=SYSTEM_NAMESPACE)
        cluster = {
            "apiVersion": f"{CLUSTER}/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"syncMode": mode},
        }
        await self.put("clusters", cluster, CLUSTER)
        return token

    def agent(self, process: Process, name: str, token: str, cluster: SimulatedCluster | None = None) -> Agent:
        api = ("127.0.0.1", cluster.port if cluster is not None else 1)
        return Agent(process.server.url, name, lambda: token, self.tls, api, limits=QUICK, backoff=AGAIN)


@asynccontextmanager
async def agent_hub(folder: Path, processes: int = 1) -> AsyncIterator[AgentHub]:
    hub = AgentHub(folder)
    await hub.store.start()
    await seed(hub.objects)
    try:
        for _ in range(processes):
            await hub.process()
        yield hub
    finally:
        for process in hub.processes:
            await process.stop()
        await hub.store.stop()


@asynccontextmanager
async def running(*agents: Agent) -> AsyncIterator[None]:
    """Run the agents meanwhile."""
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def member(folder: Path | None = None, name: str = "m1") -> AsyncIterator[SimulatedCluster]:
    """A simulated member; over TLS with a certificate in `folder`."""
    async with AsyncExitStack() as stack:
        tls = None
        if folder is not None:
            cert, key = self_signed(folder)
            tls = Tls(cert, key, cert.read_bytes())
        cluster = SimulatedCluster(name, pod_start_s=0.02, pod_stop_s=0.02, tls=tls)
        await cluster.start()
        stack.push_async_callback(cluster.stop)
        yield cluster


@asynccontextmanager
async def connection(hub: AgentHub, name: str, kubeconfig: str) -> AsyncIterator[Connection]:
    """The controllers' connection with a member, over its tunnel."""
    dialer = hub.dialer()
    access = read_kubeconfig(kubeconfig).dialled(lambda: dialer.dial(name))
    made = Connection(access)
    try:
        yield made
    finally:
        await made.aclose()
        await dialer.aclose()
