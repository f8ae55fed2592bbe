"""What a kubelet reads of an agent, and how long an agent waits between its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from random import Random

import httpx
import pytest

from api.transport.serve import bind
from fleet.agent.health import AT_ONCE, HealthServer
from fleet.agent.serving import Agent, Backoff
from fleet.hub.tunnels import address_of


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Agent, str]]:
    agent = Agent("https://hub.invalid:6440", "m1", lambda: "token", None, ("127.0.0.1", 1))
    listener = bind("127.0.0.1", 0)
    listener.listen(1024)
    task = asyncio.create_task(HealthServer(agent, listener).run())
    try:
        yield agent, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_kubelet_hears_whether_the_agent_runs_and_is_connected() -> None:
    async with served() as (agent, url), httpx.AsyncClient(base_url=url, timeout=20) as client:
        assert (await client.get("/healthz")).status_code == 200
        before = await client.get("/readyz?verbose")
        assert before.status_code == 503 and "not connected yet" in before.text
        agent.connected.set()
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/metrics")).status_code == 404
        assert (await client.post("/healthz")).status_code == 404


async def test_clients_that_say_nothing_do_not_keep_others_out_for_long() -> None:
    async with served() as (_, url):
        port = int(url.rsplit(":", 1)[1])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(AT_ONCE)]
        await asyncio.sleep(0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = await asyncio.wait_for(reader.read(), 10)
        assert answer == b""  # too many at once
        async with asyncio.timeout(30):
            for one, _ in silent:
                assert await one.read() == b""  # given up
        async with httpx.AsyncClient(timeout=20) as client:
            assert (await client.get(f"{url}/healthz")).status_code == 200


def test_pauses_grow_and_stay_within_their_bounds() -> None:
    backoff = Backoff(random=Random(1))
    pauses = [[backoff.pause(failures) for _ in range(100)] for failures in range(40)]
    assert all(0.25 <= pause <= 0.5 for pause in pauses[0])
    assert all(15 <= pause <= 30 for row in pauses[7:] for pause in row)
    assert all(len(set(row)) > 50 for row in pauses)  # agents of one hub do not come back at once


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_address_of_an_api_process_is_one_that_others_can_use(host: str) -> None:
    listener = bind(host, 0)
    try:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"{socket.gethostname() if host == '0.0.0.0' else host}:{port}"
    finally:
        listener.close()
