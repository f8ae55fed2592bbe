"""The tunnels of members' agents, put together for the processes of a hub: who holds them, and how others reach those.

All processes of a hub share its data directory. So one of them trusts another by the very certificate that both find
there, or by the CA beside it, and not by the name on it: the address of an API process may be one that only the hub's
own machines use.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING

from fleet.cli.datadir import DataDir
from fleet.hub import serving
from fleet.values.wellknown import LOCAL

if TYPE_CHECKING:
    import aiohttp

    from fleet.agent.dialer import Dialer
    from fleet.hub.compose import CommonParts
    from fleet.relays.tunnels import Tunnels

ANY = ("0.0.0.0", "::", "")


def address_of(listener: socket.socket) -> str:
    """Where other machines reach this listener: its own address, or the machine's name when that is every address."""
    host, port = listener.getsockname()[:2]
    host = socket.gethostname() if host in ANY else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def holder_of(hub: CommonParts, address: str) -> Tunnels:
    """For the API process: takes agents in."""
    from fleet.relays.tunnels import Tunnels

    identity = f"{socket.gethostname()}-{os.getpid()}"
    return Tunnels(hub.objects, hub.store, hub.clock, identity=identity, address=address)


def dialer_of(hub: CommonParts, own: Tunnels | None = None) -> Dialer:
    """For any process: reaches members through the process that holds their tunnel, which may be this one."""
    from fleet.agent.dialer import Dialer
    from fleet.agent.lease import TunnelLease, key_of, read
    from fleet.agent.mux import Pipe
    from fleet.relays.peers import PeerTokens

    tokens = PeerTokens(hub.data.service_account_key.read_bytes(), hub.clock)
    clients: list[aiohttp.ClientSession] = []

    def holding(name: str) -> TunnelLease | None:
        stored = hub.store.peek(key_of(name))
        return read(stored.body if stored is not None else None)

    async def reach(address: str, name: str) -> Pipe:
        from fleet.agent.pipe import connect, session  # loads aiohttp, which an API process starts without
        from fleet.agent.serving import path_of

        if not clients:
            clients.append(session())
        return await connect(
            clients[0], f"https://{address}{path_of(name, 'dial')}", tokens.issue(), _tls(hub.data), LOCAL
        )

    async def close() -> None:
        for client in clients:
            await client.close()

    return Dialer(holding, reach, own.own if own is not None else lambda name: None, close)


def _tls(data: DataDir) -> ssl.SSLContext:
    """Read at each connection, since certificates are renewed. All processes show who asks for LOCAL the hub's own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the server's certificate itself is enough
    for path in (serving.own(data).certificate, data.ca_certificate):
        if path.exists():
            context.load_verify_locations(cafile=str(path))
    return context
