"""A client for what is passed on to a member as it came, streams included.

Apart from `kubeconfig.py`, since only the API passes requests on: the controllers never load httpx.
"""

from __future__ import annotations

from typing import Any

import httpx

from fleet.members.kubeconfig import read_kubeconfig


class _NamedServer(httpx.AsyncHTTPTransport):
    """Checks the server's certificate against `tls-server-name` instead of the URL's host."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self._name = name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "sni_hostname": self._name}
        return await super().handle_async_request(request)


def client_from_kubeconfig(text: str) -> httpx.AsyncClient:
    """A client whose base URL is the member's API server, for what passes requests on. As `read_kubeconfig`."""
    access = read_kubeconfig(text)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60.0)
    options: dict[str, Any] = {"verify": access.tls, "limits": limits, "proxy": access.proxy, "trust_env": False}
    transport = _NamedServer(access.tls_name, **options) if access.tls_name else httpx.AsyncHTTPTransport(**options)
    return httpx.AsyncClient(base_url=access.server, headers=dict(access.headers), transport=transport, trust_env=False)
