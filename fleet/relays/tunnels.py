"""clusters/NAME/tunnel and clusters/NAME/dial: where agents of members come in, and where the hub's processes ask for
streams to them.

The process that an agent is connected with says so in a Lease (fleet/agent/lease.py). Each connection of an agent
raises the Lease's number. So the newest wins, wherever it came in. A process that finds a higher number lets its own
connection go. Nothing of a stream is looked at here: bytes pass from the one connection to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.engine.status import StatusError, not_found, unavailable
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.transport.websocket import handshake
from api.wire.http import Answer, Request, Upgrade
from api.wire.routing import Route
from fleet.agent.lease import GROUP, RENEW_S, REPLACED, RESOURCE, fresh, key_of, read, renewed, take_lease
from fleet.agent.mux import BrokenStream, Mux, MuxLimits, Pipe, Stream
from fleet.agent.splice import splice
from fleet.values.ports import Body, Clock, Key, Store, StoreUnavailable
from fleet.values.untyped import mapping
from fleet.values.wellknown import SYSTEM_USER
from fleet.wellknown import CLUSTER, FIELD_MANAGER, SYSTEM_NAMESPACE

MEMBERS_MOST = 1_000  # with metrics of their own
LOOK_S = 1.0  # between two looks at the Lease
_OPTIONS = Options(
    user=User(SYSTEM_USER, ("system:masters",), hub=True), manager=FIELD_MANAGER, field_validation="Ignore"
)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _HeldTunnel:
    """The connection of an agent, and its number."""

    mux: Mux
    number: int


class Tunnels(Collector):
    """The tunnels that end in this process. `identity` and `address`: of this process, for the Leases."""

    def __init__(
        self,
        objects: Objects,
        store: Store,
        clock: Clock,
        *,
        identity: str,
        address: str,
        limits: MuxLimits | None = None,
    ) -> None:
        self._objects, self._store, self._clock = objects, store, clock
        self._identity, self.address = identity, address
        self._limits = limits or MuxLimits()
        self._held: dict[str, _HeldTunnel] = {}

    def __len__(self) -> int:
        return len(self._held)

    def own(self, name: str) -> Mux | None:
        """The tunnel of a member, where it ends in this process."""
        held = self._held.get(name)
        return held.mux if held is not None else None

    def show(self, registry: CollectorRegistry) -> None:
        """Add the metrics of the agents that are connected here to those of the process."""
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        labels = ("member",)
        streams = GaugeMetricFamily(
            "fleet_agent_streams", "Open streams over the connection of a member's agent.", labels=labels
        )
        sent_bytes = CounterMetricFamily(
            "fleet_agent_sent_bytes", "Bytes to an agent, since it connected.", labels=labels
        )
        received_bytes = CounterMetricFamily(
            "fleet_agent_received_bytes", "Bytes from an agent, since it connected.", labels=labels
        )
        for member, held in sorted(self._held.items(), key=lambda item: item[0])[:MEMBERS_MOST]:
            streams.add_metric((member,), held.mux.streams)
            sent_bytes.add_metric((member,), held.mux.sent_bytes)
            received_bytes.add_metric((member,), held.mux.received_bytes)
        return streams, sent_bytes, received_bytes

    def routes(self) -> dict[tuple[str, str, str], Callable[[Route, Request], Awaitable[Answer]]]:
        """For `build_app(extra_routes=…)`."""
        return {(CLUSTER, "clusters", "tunnel"): self.serve, (CLUSTER, "clusters", "dial"): self.dial}

    # -- agents

    async def serve(self, route: Route, request: Request) -> Answer:
        """Take an agent in, which authorisation has let through."""
        cluster = await self._store.get(Key(CLUSTER, "clusters", "", route.name))
        if cluster is None:
            raise not_found(CLUSTER, "clusters", route.name)
        if mapping(cluster.body.get("spec")).get("syncMode") != "Pull":
            raise StatusError(409, "Conflict", f"cluster {route.name} has no agent: its spec.syncMode is not Pull")
        return Upgrade(handshake(request), partial(self._hold, route.name))

    async def _hold(self, name: str, pipe: Pipe) -> None:
        mux = Mux(pipe, None, self._limits)
        try:
            tunnel = _HeldTunnel(mux, await self._take(name))
        except (StoreUnavailable, StatusError) as error:
            log.warning("a tunnel cannot be recorded", member=name, why=str(error))
            await pipe.close(1013, "the hub cannot record the tunnel now")
            return
        former, self._held[name] = self._held.get(name), tunnel
        if former is not None:
            former.mux.close("a newer connection of this agent serves", REPLACED)
        keeper = asyncio.create_task(self._keep(name, tunnel), name=f"tunnel:keep:{name}")
        log.info("agent connected", member=name, number=tunnel.number)
        try:
            await mux.run()
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            if self._held.get(name) is tunnel:
                del self._held[name]
            log.info("agent gone", member=name, number=tunnel.number, why=mux.why)
            with contextlib.suppress(StoreUnavailable, StatusError):  # the Lease grows old, which says the same
                await self._renew(name, tunnel, holds=False)

    async def _take(self, name: str) -> int:
        """Record this process as the holder; the number of this connection."""
        kind = self._objects.registry.need(GROUP, RESOURCE)

        def take(lease: Body) -> Body:
            take_lease(lease, self._identity, self.address, self._clock.now())
            return lease

        while True:
            changed = await self._objects.change(kind, SYSTEM_NAMESPACE, key_of(name).name, take, _OPTIONS)
            holding = read(changed)
            if holding is not None:
                return holding.transitions
            try:
                await self._objects.create(kind, SYSTEM_NAMESPACE, fresh(name), _OPTIONS)
            except StatusError as error:
                if error.code != 409:  # another process was first
                    raise

    async def _renew(self, name: str, held: _HeldTunnel, *, holds: bool) -> None:
        kind, now = self._objects.registry.need(GROUP, RESOURCE), self._clock.now()
        change = partial(renewed, number=held.number, now=now, holds=holds)
        await self._objects.change(kind, SYSTEM_NAMESPACE, key_of(name).name, change, _OPTIONS)

    async def _keep(self, name: str, tunnel: _HeldTunnel) -> None:
        """Renew the Lease, and let the agent go once a newer connection of it, or its member, has ended this one."""
        clock = asyncio.get_running_loop().time
        renewed_at = clock()
        while True:
            await asyncio.sleep(LOOK_S)
            lease = self._store.peek(key_of(name))
            holding = read(lease.body if lease is not None else None)
            if holding is not None and holding.transitions > tunnel.number:
                tunnel.mux.close("a newer connection of this agent serves", REPLACED)
            elif holding is None:
                tunnel.mux.close("the member has left the hub")
            if clock() - renewed_at >= RENEW_S:
                renewed_at = clock()
                with contextlib.suppress(StoreUnavailable, StatusError):
                    await self._renew(name, tunnel, holds=True)

    # -- the hub's processes

    async def dial(self, route: Route, request: Request) -> Answer:
        """Take a process of the hub in that wants streams to the member."""
        mux = self.own(route.name)
        if mux is None or mux.over.is_set():
            raise unavailable(f"the agent of cluster {route.name} is not connected with this process", 1)
        return Upgrade(handshake(request), partial(self._bridge, mux))

    async def _bridge(self, agent: Mux, pipe: Pipe) -> None:
        async def pass_on(stream: Stream) -> None:
            beyond = await agent.open()
            try:
                await stream.accept()
                await splice(stream, beyond)
            except BrokenStream:
                pass  # the peers of both have been told
            finally:
                if not beyond.finished:
                    beyond.abort("not wanted any more")

        link = Mux(pipe, pass_on, self._limits)
        running = asyncio.create_task(link.run(), name="tunnel:bridge")
        over: asyncio.Task[object] = asyncio.create_task(agent.over.wait())
        try:
            await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
            link.close(agent.why or "the agent has gone")
            await running
        finally:
            for task in (running, over):
                task.cancel()
            await asyncio.gather(running, over, return_exceptions=True)
