"""The limits of a connection before its user is known, and the number of connections of each address.

Everything here holds before authentication, so that a stranger can waste nothing but bounded memory for a bounded time.
Counts are of one listening socket.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client import Counter as Metric


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one server. Times are in seconds."""

    connections: int = 4000
    """Connections at once, those in their TLS handshake included; more are closed as they come."""
    connections_by_address: int = 1000
    """Connections at once from one IPv4 address or one IPv6 /64; a NAT or a bench needs some hundreds."""
    handshake_s: float = 10.0
    """A TLS handshake that takes longer ends its connection."""
    header_bytes: int = 64 * 1024
    """Request line, headers and trailers of one request together; more is 431."""
    header_fields: int = 1000
    """Headers of one request; more is 431."""
    path_bytes: int = 8 * 1024
    """Path and query together; more is 414."""
    header_s: float = 32.0
    """From a request's first byte, or from the beginning of its connection, to the end of its headers; then 408."""
    body_s: float = 60.0
    """From the end of the headers to the end of the body, while the server reads; then 408."""
    pipelined: int = 32
    """Requests sent before the first of them is answered; more end the connection."""
    send_s: float = 30.0
    """A client that does not take what is ready for it (at most about 512 KiB) within this time is cut off. Time that a
    client has lost is given back as it reads on, at `send_rate`."""
    send_rate: int = 16 * 1024
    """Bytes a second that a client must take on average, while more is ready than its connection holds."""


class EdgeMetrics:
    """Counters of the edge's acts, by reasons that are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Gauge("fleet_api_connections", "Open connections.", registry=registry)
        self._refused = Metric(
            "fleet_api_refused_total",
            "Connections and requests refused before authentication, by bound.",
            ("bound",),
            registry=registry,
        )
        self._cut = Metric(
            "fleet_api_slow_readers_total", "Connections ended since the client did not read.", registry=registry
        )

    def refused(self, bound: str) -> None:
        self._refused.labels(bound).inc()

    def cut(self) -> None:
        self._cut.inc()


class ConnectionPlace:
    """One of the connections that a server may have; `leave` may be called more than once."""

    __slots__ = ("_address", "_connections")

    def __init__(self, connections: Connections, address: str) -> None:
        self._connections: Connections | None = connections
        self._address = address

    def leave(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.left(self._address)


class Connections:
    """The connections of one server, counted by address."""

    def __init__(self, bounds: Bounds, metrics: EdgeMetrics) -> None:
        self._bounds, self._metrics = bounds, metrics
        self._by_address: Counter[str] = Counter()
        self._all = 0

    def enter(self, host: str) -> ConnectionPlace | None:
        """A place for a connection from this address, or None when there are too many."""
        if self._all >= self._bounds.connections:
            self._metrics.refused("connections")
            return None
        address = neighbourhood(host)
        if self._by_address[address] >= self._bounds.connections_by_address:
            self._metrics.refused("connections_by_address")
            return None
        self._all += 1
        self._by_address[address] += 1
        self._metrics.connections.inc()
        return ConnectionPlace(self, address)

    def left(self, address: str) -> None:
        self._all -= 1
        self._metrics.connections.dec()
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def neighbourhood(host: str) -> str:
    """The unit that counts as one address: an IPv4 address, also in its IPv6 form, or the /64 of one IPv6
    subscriber."""
    if ":" not in host:
        return host
    address = ip_address(host.partition("%")[0])
    assert isinstance(address, IPv6Address)
    return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()
