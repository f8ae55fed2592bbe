"""The event loop of hub processes: uvloop, whose TLS connections here own their sockets to the end.

uvloop 0.23 leaves some transports of broken TLS handshakes to the garbage collector, over sockets that the caller gave.
The collector closes such a socket twice: libuv closes it, and so does the Python object. In between its number may have
come to mean another socket. That one is closed then, be it of the database or of another member, and its owner hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop


class EventLoop(uvloop.Loop):
    """See the module."""

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        **more: Any,
    ) -> tuple[Any, Any]:
        """TLS over a socket that was given is begun in a second step, so that the first transport can be aborted."""
        if not ssl or sock is None:
            return await super().create_connection(
                protocol_factory,
                host,
                port,
                ssl=ssl,
                sock=sock,
                server_hostname=server_hostname,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
                **more,
            )
        plain: Any
        plain, _ = await super().create_connection(asyncio.Protocol, sock=sock, **more)
        if plain.is_closing():  # a handshake over it would never begin, nor end
            raise ConnectionResetError("the connection was closed before its TLS handshake")
        try:
            protocol = protocol_factory()
            transport: Any = await self.start_tls(
                plain,
                protocol,
                ssl,
                server_hostname=server_hostname,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
            )
            protocol.connection_made(transport)
        except BaseException:
            plain.abort()
            raise
        return transport, protocol
