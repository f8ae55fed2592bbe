"""exec, attach and port-forward to pods of members: clients, and what they send and get."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import subprocess
from collections.abc import Awaitable, Callable

import pytest

from tests.api.conftest import KUBECTLS
from tests.api.wait import expect_line
from tests.relays.conftest import World

OLDEST, OWN = next(iter(KUBECTLS.values())), list(KUBECTLS.values())[-1]
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
CLIENTS = pytest.mark.parametrize(
    ("kubectl", "env"), [(OWN, {}), (OWN, SPDY), (OLDEST, {})], ids=["websocket", "spdy", "oldest"]
)
BYTES = 10 << 20
Ended = tuple[int | None, str, str]
TRIES = 5


async def heard(run: Callable[[], Awaitable[Ended]], whole: Callable[[Ended], bool]) -> Ended:
    """Run a kubectl until its end is `whole`, and return the end. kwok closes one exec over SPDY in a hundred early,
    also without the hub: all output is missing then, or the exit status alone."""
    for _ in range(TRIES):
        ended = await run()
        if whole(ended):
            return ended
    raise AssertionError(f"{TRIES} runs of exec were cut, the last to {ended!r:.300}")


async def write_lines(world: World) -> None:
    """Lines of the pod's, again and again: nothing says when kwok has begun to read."""
    while True:
        with world.node.log.open("a") as log:
            log.write("2026-01-01T00:00:01.000000000Z stdout F attached\n")
        await asyncio.sleep(0.3)


async def digests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server of the pod's: says the digest of the bytes that come, and sends them back."""
    data = await reader.readexactly(BYTES)
    writer.write(hashlib.sha256(data).digest() + data)
    await writer.drain()
    writer.close()


async def both_ways(port: int) -> None:
    """Ten megabytes there and back."""
    data = os.urandom(BYTES)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def write() -> None:
        writer.write(data)
        await writer.drain()

    async with asyncio.timeout(120):
        _, back = await asyncio.gather(write(), reader.readexactly(32 + BYTES))
    assert back == hashlib.sha256(data).digest() + data
    writer.close()


async def forwards(world: World, process: subprocess.Popen[str]) -> None:
    """The kubectl forwards a port to the pod: ten megabytes there and back. Ends it."""
    server = await asyncio.start_server(digests, "127.0.0.1", world.node.port)
    try:
        line = await expect_line(process, "Forwarding from 127.0.0.1")
        port = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert port is not None, line
        await both_ways(int(port[1]))
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)
        server.close()
        await server.wait_closed()


def over_spdy(*versions: str) -> list[tuple[str, str]]:
    return [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), *(("x-stream-protocol-version", v) for v in versions)]
