"""A client for what is passed on to a member as it came, streams included.

Apart from `kubeconfig.py`, since only the API passes requests on: the controllers never load httpx.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from fleet.members.kubeconfig import Dialled, read_kubeconfig

CONNECTIONS_KEPT = 20
KEPT_S = 60.0


class _NamedServer(httpx.AsyncHTTPTransport):
    """Checks the server's certificate against `tls-server-name` instead of the URL's host."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self._name = name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "sni_hostname": self._name}
        return await super().handle_async_request(request)


class _Stream(httpcore.AsyncNetworkStream):
    """A dialled socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # of an idle connection: the server has ended it
            return self._reader.at_eof() or self._writer.is_closing()
        return self._writer.get_extra_info(info)


class _Backend(httpcore.AsyncNetworkBackend):
    """Every connection is a dialled one, whatever host the URL names."""

    def __init__(self, dial: Dialled) -> None:
        self._dial = dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(sock=await self._dial())
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(reader, writer)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError("a dialled connection has no path")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def client_from_kubeconfig(text: str, dial: Dialled | None = None) -> httpx.AsyncClient:
    """A client whose base URL is the member's API server, for what passes requests on. As `read_kubeconfig`. `dial`:
    makes its connections, of a member that only its agent reaches."""
    access = read_kubeconfig(text)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS_KEPT, keepalive_expiry=KEPT_S)
    proxy = None if dial is not None else access.proxy
    options: dict[str, Any] = {"verify": access.tls, "limits": limits, "proxy": proxy, "trust_env": False}
    transport = _NamedServer(access.tls_name, **options) if access.tls_name else httpx.AsyncHTTPTransport(**options)
    if dial is not None:
        transport._pool = httpcore.AsyncConnectionPool(
            ssl_context=access.tls,
            max_connections=None,
            max_keepalive_connections=CONNECTIONS_KEPT,
            keepalive_expiry=KEPT_S,
            network_backend=_Backend(dial),
        )
    return httpx.AsyncClient(base_url=access.server, headers=dict(access.headers), transport=transport, trust_env=False)
