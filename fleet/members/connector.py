"""Connections of aiohttp's over sockets that are dialled by other means, such as the tunnel of a member's agent."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from fleet.members.kubeconfig import Dialled


class DialledConnector(aiohttp.BaseConnector):
    """As aiohttp's UnixConnector, with a socket that is connected already, and TLS over it. `name`: on the server's
    certificate, where that is not the URL's host."""

    def __init__(self, dial: Dialled, tls: ssl.SSLContext, name: str | None, *, keepalive_timeout: float) -> None:
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout)
        self._dial, self._tls, self._name = dial, tls, name

    async def _create_connection(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> ResponseHandler:
        """Raises OSError with the words of the dialler."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout.sock_connect):
                secured = req.is_ssl()
                _, protocol = await loop.create_connection(  # which owns the socket, and closes it when it fails
                    self._factory,
                    sock=await self._dial(),
                    ssl=self._tls if secured else None,
                    server_hostname=(self._name or str(req.url.host)) if secured else None,
                )
        except TimeoutError:
            raise aiohttp.ServerTimeoutError("no connection over the tunnel in time") from None
        return protocol
