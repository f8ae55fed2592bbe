"""A server that stops: what it answers meanwhile, and what no client of it loses."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from api.transport.serve import Server
from tests.api.conftest import Hub

MAPS = "/api/v1/namespaces/default/configmaps"
DRAIN_S = 60.0  # which no test waits for: a second stop ends it


@asynccontextmanager
async def another_server(hub: Hub, drain_s: float) -> AsyncIterator[Server]:
    """A second server of the same hub, which a test stops."""
    server = Server(
        hub.app,
        cert=hub.cert,
        key=hub.cert.with_name("tls.key"),
        close_streams=hub.app.close_streams,
        drain_s=drain_s,
        on_drain=hub.app.drain,
        finish_s=20,
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def trust(hub: Hub) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(hub.cert))


async def ready(hub: Hub, server: Server) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url, verify=trust(hub), timeout=20) as client:
        return await client.get("/readyz")


async def until_refused(server: Server) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.05)


async def test_a_server_that_drains_is_not_ready_and_sends_its_clients_elsewhere(hub: Hub) -> None:
    async with another_server(hub, DRAIN_S) as server:
        assert (await ready(hub, server)).status_code == 200
        headers = {"authorization": "Bearer admin-token"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, verify=trust(hub), timeout=20) as client:
            before = await client.post(MAPS, json={"metadata": {"name": "before"}})
            stopping = asyncio.create_task(server.stop())
            await asyncio.sleep(0)
            answer = await ready(hub, server)
            assert (answer.status_code, "[-]shutdown failed: process is shutting down" in answer.text) == (503, True)
            during = await client.post(MAPS, json={"metadata": {"name": "during"}})
        assert [answer.status_code for answer in (before, during)] == [201, 201]
        assert (before.headers.get("connection"), during.headers["connection"]) == (None, "close")
        stopping.cancel()
        await server.stop()
        with pytest.raises(httpx.ConnectError):
            await ready(hub, server)


@pytest.mark.parametrize("begun", [True, False], ids=["half a request", "a new connection"])
async def test_a_client_that_has_been_taken_in_gets_its_answer(hub: Hub, begun: bool) -> None:
    body = json.dumps({"metadata": {"name": "late"}}).encode()
    head = (
        f"POST {MAPS} HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer admin-token\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()
    async with another_server(hub, 0) as server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trust(hub), server_hostname="127.0.0.1"
        )
        request = head + body
        sent = len(head) + 5 if begun else 0
        writer.write(request[:sent])
        await writer.drain()
        stopping = asyncio.create_task(server.stop())
        if begun:
            await until_refused(server)
        writer.write(request[sent:])
        answer = await asyncio.wait_for(reader.read(), 30)
        assert answer.startswith(b"HTTP/1.1 201 ") and b"\r\nconnection: close\r\n" in answer, answer
        await stopping
        writer.close()
